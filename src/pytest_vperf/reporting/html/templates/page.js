"use strict";
// Filters, sorts and opens the claims, and draws what was measured. All texts become nodes of text: nothing that a
// record says is ever read as markup.
(() => {
  const SHOWN_AT_FIRST = document.querySelectorAll("tr.claim:not(.later)").length;
  const COLOURS = ["var(--a)", "var(--b)", "var(--c)", "var(--d)", "var(--e)", "var(--f)", "var(--g)"];
  const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "wye", "cross"];
  const rows = [...document.querySelectorAll("tr.claim")];
  const shared = JSON.parse(document.getElementById("shared").textContent);

  function make(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // As the terminal has numbers: four digits.
  function number(value) {
    if (value === null || value === undefined) return "-";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e7) return value.toExponential(3);
    const digits = Math.max(0, 3 - Math.floor(Math.log10(size)));
    const text = value.toFixed(digits);
    return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
  }

  const amount = (value, unit) => (unit ? `${number(value)} ${unit}` : number(value));
  const interval = (ends) => ends && `[${number(ends[0])}, ${number(ends[1])}]`;

  // ---- the table of claims

  const search = document.getElementById("search");
  const family = document.getElementById("family");
  const boxes = [...document.querySelectorAll("#controls input[name=verdict]")];
  const count = document.getElementById("count");
  const more = document.getElementById("more");
  let limit = SHOWN_AT_FIRST;

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let found = 0;
    for (const row of rows) {
      const fits =
        verdicts.has(row.dataset.verdict) &&
        (!family.value || row.dataset.family === family.value) &&
        (!words.length || words.every((word) => text(row).includes(word)));
      found += fits;
      row.classList.toggle("off", !fits);
      row.classList.toggle("later", fits && found > limit);
      if (row.opened) row.opened.classList.toggle("off", !fits || found > limit);
    }
    count.textContent = found === rows.length ? `${found} claims` : `${found} of ${rows.length} claims`;
    more.hidden = found <= limit;
    more.textContent = `Show all ${found}`;
  }

  const text = (row) => (row.text ??= row.textContent.toLowerCase());

  function sort(head) {
    const key = head.dataset.sort;
    const back = head.getAttribute("aria-sort") === "ascending";
    for (const each of head.parentNode.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", back ? "descending" : "ascending");
    const value = {
      verdict: (row) => Number(row.dataset.place),
      name: (row) => row.id,
      // What is not known comes last in both directions.
      gap: (row) => (row.dataset.gap === undefined ? (back ? -Infinity : Infinity) : Number(row.dataset.gap)),
      n: (row) => Number(row.cells[5].textContent),
    }[key];
    const values = new Map(rows.map((row) => [row, value(row)]));
    rows.sort((one, other) => {
      const [a, b] = [values.get(one), values.get(other)];
      const order = a < b ? -1 : a > b ? 1 : Number(one.dataset.of) - Number(other.dataset.of);
      return back && a !== b ? -order : order;
    });
    const body = document.querySelector("#list tbody");
    body.append(...rows.flatMap((row) => (row.opened ? [row, row.opened] : [row])));
    filter();
  }

  function open(row) {
    if (row.opened) return;
    const data = JSON.parse(document.getElementById(`data-${row.dataset.of}`).textContent);
    const cell = make("td", { colspan: 7 });
    row.opened = make("tr", { class: "detail" }, cell);
    row.after(row.opened);
    row.querySelector("a.name").setAttribute("aria-expanded", "true");
    detail(cell, data, row.querySelector("a.name").textContent);
  }

  function close(row) {
    row.opened.remove();
    row.opened = undefined;
    row.querySelector("a.name").setAttribute("aria-expanded", "false");
  }

  function follow() {
    const row = document.getElementById(location.hash.slice(1)); // an anchor has no character that is escaped
    if (!row || !row.classList.contains("claim")) return;
    if (row.classList.contains("off")) reset();
    row.classList.remove("later");
    open(row);
    row.opened.classList.remove("off");
    row.scrollIntoView();
    row.querySelector("a.name").focus({ preventScroll: true });
  }

  function reset(verdict, of) {
    search.value = "";
    family.value = of || "";
    for (const box of boxes) box.checked = !verdict || box.value === verdict;
    filter();
  }

  // ---- one claim

  function detail(cell, data, name) {
    const facts = make("dl", { class: "facts" });
    for (const [term, told] of data.facts || []) {
      if (told) facts.append(make("dt", {}, term), make("dd", {}, told));
    }
    if (data.again) facts.append(make("dt", {}, "again"), make("dd", {}, make("code", {}, data.again)));
    const pictures = make("div", { class: "pictures" });
    cell.append(facts, pictures);
    const wide = Math.min(cell.clientWidth || 600, 1160);
    const width = wide > 940 ? (wide - 48) / 2 : Math.max(wide - 20, 260);
    for (const draw of [samples, distribution, arms, phases, sweep, fillings, beside, past]) {
      for (const picture of [draw(data, width)].flat().filter(Boolean)) pictures.append(picture);
    }
    if (data.targets) cell.append(targets(data.targets, name));
  }

  // A picture, with the figures that it is made from in a table behind it.
  function picture(title, options, heads, cells, ...notes) {
    const drawn = Plot.plot({ className: "plot", marginLeft: 56, marginTop: 24, ...options });
    for (const style of drawn.querySelectorAll("style")) style.remove();
    const images = drawn.tagName === "svg" ? [drawn] : drawn.querySelectorAll("svg.plot");
    for (const svg of images) {
      svg.setAttribute("role", "img");
      for (const part of svg.querySelectorAll("[aria-label], [aria-description]")) {
        part.removeAttribute("aria-label");
        part.removeAttribute("aria-description");
      }
      svg.setAttribute("aria-label", `${title}; its figures are in the table below`);
    }
    const behind = make("details", {}, make("summary", {}, "As a table"));
    behind.addEventListener("toggle", () => behind.children.length < 2 && behind.append(table(title, heads, cells)));
    return make(
      "figure", { class: "picture" }, make("figcaption", {}, title), drawn,
      ...notes.filter(Boolean).map((note) => make("p", {}, note)), behind,
    );
  }

  function table(title, heads, cells) {
    const head = make("tr", {}, ...heads.map((each) => make("th", { scope: "col" }, each)));
    const body = cells.map((row) =>
      make("tr", {}, ...row.map((each) => make("td", {}, typeof each === "number" ? number(each) : String(each ?? "-")))),
    );
    const made = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
    return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": title }, made);
  }

  const armName = (data, arm) => (data.arms && data.arms[arm] ? data.arms[arm].name : arm);
  // Two arms of one name (a thing compared with itself) are still two.
  const armNames = (data) => {
    const found = Object.fromEntries(["a", "b"].map((arm) => [arm, armName(data, arm)]));
    return found.a === found.b ? { a: `${found.a} (a)`, b: `${found.b} (b)` } : found;
  };
  const armColours = (data) => {
    const names = armNames(data);
    return { domain: [names.a, names.b], range: COLOURS.slice(0, 2) };
  };
  const armSymbols = (data) => {
    const names = armNames(data);
    return { domain: [names.a, names.b], range: SYMBOLS.slice(0, 2) };
  };

  function observations(data) {
    const names = armNames(data);
    return (data.samples || []).map(([at, session, arm, value, warm], order) => ({
      order, at, session, arm, name: names[arm], value, warm: Boolean(warm),
    }));
  }

  function samples(data, width) {
    const found = observations(data);
    if (!found.length) return null;
    const two = found.some((each) => each.arm === "b");
    const sessions = (data.sessions || []).map((each) => {
      const own = found.filter((one) => one.session === each.n);
      return own.length && { ...each, from: own[0].order - 0.5, to: own[own.length - 1].order + 0.5 };
    }).filter(Boolean);
    const disturbed = sessions.filter((each) => each.disturbed.length);
    // What was compared with each other: the k-th of one arm with the k-th of the other.
    const [a, b] = ["a", "b"].map((arm) => found.filter((each) => each.arm === arm && !each.warm));
    const pairs = two ? a.slice(0, b.length).map((each, k) => [each, b[k]]) : [];
    const marks = [
      Plot.rect(disturbed, { x1: "from", x2: "to", fill: "var(--disturbed)" }),
      Plot.ruleX(sessions.slice(1), { x: "from", stroke: "var(--line)" }),
      Plot.link(pairs, {
        x1: (pair) => pair[0].order, x2: (pair) => pair[1].order, y1: (pair) => pair[0].value, y2: (pair) => pair[1].value,
        stroke: "var(--line)",
      }),
      Plot.text(sessions, {
        x: (each) => (each.from + each.to) / 2, frameAnchor: "top", dy: -14,
        text: (each) => {
          const told = sessions.length <= 3 && width > 400;
          return each.disturbed.length ? `${each.n}${told ? ": disturbed" : "!"}` : `${told ? "session " : ""}${each.n}`;
        },
        fill: "var(--faint)",
      }),
      ...limits(data, two, "y"),
      Plot.dot(found, {
        x: "order", y: "value", r: 3, symbol: two ? "name" : undefined, stroke: two ? "name" : "var(--a)",
        fill: two ? "name" : "var(--a)", fillOpacity: 0.6, filter: (each) => !each.warm,
      }),
      Plot.dot(found, {
        x: "order", y: "value", r: 3, symbol: two ? "name" : undefined, stroke: two ? "name" : "var(--a)",
        filter: (each) => each.warm,
      }),
    ];
    return picture(
      "Samples, in the order they were taken",
      {
        width, height: 230, marks, x: { label: "sample" }, y: { label: data.unit || "ratio", grid: true, nice: true },
        color: armColours(data), symbol: { ...armSymbols(data), legend: two },
      },
      ["sample", "session", "at, s", ...(two ? ["of"] : []), data.unit || "ratio", "judged"],
      found.map((each) => [
        String(each.order), String(each.session), each.at, ...(two ? [each.name] : []), each.value, each.warm ? "warm-up" : "yes",
      ]),
      found.some((each) => each.warm) && "Hollow: the warm-up, which is not judged.",
      sessions.length > 1 && `Lines divide the ${sessions.length} sessions.`,
      ...sessions.filter((each) => each.disturbed.length || (sessions.length <= 3 && Object.keys(each.noise).length)).map((each) => {
        const told = Object.entries(each.noise).map(([key, value]) => `${key} ${value}`).join(", ");
        return `Session ${each.n}${each.disturbed.length ? ", disturbed" : ""}: ${told}.`;
      }),
    );
  }

  // The limit of a claim, where the picture is of what it limits.
  function limits(data, two, axis) {
    const same = !two && !data.ratio && (data.unit || "") === (data.figure || "");
    return same ? limitRule(data, axis, data.figure) : [];
  }

  // With the figures that still count as near it, if the claim allows some.
  function limitRule(data, axis, unit) {
    const value = data.threshold;
    if (value === undefined) return [];
    const label = amount(value, unit);
    const rule = { stroke: "var(--refuted)", strokeWidth: 1.5, strokeDasharray: "5 3" };
    const [low, high] = data.near || [];
    const near = { fill: "var(--refuted)", fillOpacity: 0.1 };
    const band = data.near ? [axis === "y" ? Plot.rectY([0], { y1: low, y2: high, ...near }) : Plot.rectX([0], { x1: low, x2: high, ...near })] : [];
    return axis === "y"
      ? [...band, Plot.ruleY([value], rule), Plot.text([value], { y: (each) => each, frameAnchor: "right", dy: -7, text: () => `claimed: ${label}`, fill: "var(--refuted)" })]
      : [...band, Plot.ruleX([value], rule), Plot.text([value], { x: (each) => each, frameAnchor: "top", dy: -14, text: () => `claimed: ${label}`, fill: "var(--refuted)" })];
  }

  function judgedFigures(data) {
    if (data.judged) return data.judged;
    const found = observations(data).filter((each) => !each.warm);
    if (!found.some((each) => each.arm === "b")) return found.map((each) => each.value);
    const [a, b] = ["a", "b"].map((arm) => found.filter((each) => each.arm === arm));
    return a.slice(0, b.length).map((each, k) => each.value / b[k].value);
  }

  function distribution(data, width) {
    const values = judgedFigures(data);
    if (values.length < 2 || data.sweep) return null;
    const unit = data.ratio ? "" : data.figure || data.unit;
    const [low, high] = data.interval || [null, null];
    const known = [...values, data.threshold, ...(data.near || []), low, high].filter((each) => typeof each === "number");
    const domain = [Math.min(...known), Math.max(...known)];
    if (domain[0] === domain[1]) return null;
    const marks = [
      data.interval && Plot.rectX([0], { x1: low ?? domain[0], x2: high ?? domain[1], fill: "var(--a)", fillOpacity: 0.18 }),
      Plot.rectY(values, Plot.binX({ y: "count" }, { x: (each) => each, fill: "var(--faint)", fillOpacity: 0.55, inset: 0.5 })),
      Plot.ruleY([0]),
      data.estimate !== undefined && Plot.ruleX([data.estimate], { stroke: "var(--a)", strokeWidth: 2 }),
      ...limitRule(data, "x", unit),
    ].filter(Boolean);
    return picture(
      data.ratio ? "Distribution of the ratios" : "Distribution",
      { width, height: 200, marks, marginTop: 38, x: { label: unit || "ratio", nice: true }, y: { label: "samples" } },
      [unit || "ratio"], values.map((each) => [each]),
      data.estimate !== undefined &&
        `Line: ${amount(data.estimate, unit)}${data.interval ? `; band: its interval ${interval(data.interval)}` : ""}.`,
    );
  }

  function arms(data, width) {
    const own = Object.entries(data.arms || {});
    if (own.length < 2) return null;
    const names = armNames(data);
    const found = observations(data).filter((each) => !each.warm);
    const unit = own[0][1].unit;
    const marks = [
      Plot.dot(found, { x: "value", y: "name", stroke: "name", symbol: "name", strokeOpacity: 0.55, r: 3 }),
      Plot.ruleY(own.filter(([, each]) => each.interval.every((end) => end !== null)), {
        x1: ([, each]) => each.interval[0], x2: ([, each]) => each.interval[1], y: ([arm]) => names[arm],
        stroke: "var(--text)", strokeWidth: 3,
      }),
      Plot.tickX(own, { x: ([, each]) => each.estimate, y: ([arm]) => names[arm], stroke: "var(--text)", strokeWidth: 2 }),
    ];
    return picture(
      "Both arms",
      {
        width, height: 120, marginLeft: Math.min(140, width / 3), marks, x: { label: unit, grid: true, nice: true },
        y: { label: null, domain: [names.b, names.a], tickFormat: (each) => shortened(each, 20) },
        color: armColours(data), symbol: armSymbols(data),
      },
      ["arm", `median, ${unit}`, "interval", "samples"],
      own.map(([arm, each]) => [names[arm], each.estimate, interval(each.interval), String(each.n)]),
      `Ratio of the pairs: ${number(data.estimate)}${data.interval ? ` ${interval(data.interval)}` : ""}. Ticks are medians, bars their intervals.`,
    );
  }

  const shortened = (told, most) => (told.length > most ? `${told.slice(0, most - 1)}…` : told);

  function phases(data, width) {
    const names = armNames(data);
    const own = Object.entries(data.arms || {}).filter(([, each]) => Object.keys(each.phases).length);
    const bars = own.length
      ? own.flatMap(([arm, each]) => Object.entries(each.phases).map(([phase, ms]) => ({ of: names[arm], phase, ms })))
      : Object.entries(data.phases || {}).map(([phase, ms]) => ({ of: "start", phase, ms }));
    if (!bars.length) return null;
    const domain = [...new Set(bars.map((bar) => bar.phase))];
    const marks = [
      Plot.barX(bars, Plot.stackX({ x: "ms", y: "of", fill: "phase", inset: 0.5, order: domain })),
      Plot.ruleX([0]),
    ];
    return picture(
      "Phases of a start, mean",
      {
        width, height: own.length > 1 ? 120 : 80, marginLeft: own.length > 1 ? Math.min(140, width / 3) : 56, marks,
        x: { label: "ms" }, y: { label: null, tickFormat: (each) => shortened(each, 20) },
        color: { domain, range: domain.map((_, k) => COLOURS[k % COLOURS.length]), legend: true },
      },
      ["of", "phase", "ms"], bars.map((bar) => [bar.of, bar.phase, bar.ms]),
    );
  }

  function sweep(data, width) {
    const own = data.sweep;
    if (!own || !own.loads.length) return null;
    const marks = [
      own.knee_interval && Plot.rectX([0], {
        x1: own.knee_interval[0] ?? own.loads[0].asked, x2: own.knee_interval[1] ?? own.loads[own.loads.length - 1].asked,
        fill: "var(--a)", fillOpacity: 0.18,
      }),
      Plot.line(own.loads, { x: "asked", y: "offered", stroke: "var(--b)", strokeDasharray: "3 3" }),
      Plot.line(own.loads, { x: "asked", y: "carried", stroke: "var(--a)" }),
      Plot.dot(own.loads, { x: "asked", y: "carried", fill: "var(--a)", r: 4 }),
      own.knee !== null && Plot.ruleX([own.knee], { stroke: "var(--a)", strokeWidth: 2 }),
    ].filter(Boolean);
    return picture(
      "Load and what came through",
      { width, height: 240, marks, x: { label: `asked, ${own.unit}`, nice: true }, y: { label: own.unit, grid: true, nice: true, zero: true } },
      ["load", `asked, ${own.unit}`, "offered", "carried", "samples", "left out", "busiest"],
      own.loads.map((each) => [each.point, each.asked, each.offered, each.carried, String(each.n), String(each.left_out), each.busiest]),
      `Solid: carried; dashed: offered. Shape: ${own.shape}${own.knee === null ? "" : `; knee at ${amount(own.knee, own.unit)} ${interval(own.knee_interval) || ""}`}.`,
      own.bottleneck && `Bottleneck: ${own.bottleneck}.`,
    );
  }

  const GIB = 2 ** 30;

  function fillings(data, width) {
    return (data.fillings || []).map((place) => curve(shared.fillings[place], width));
  }

  function curve(own, width) {
    const points = own.curve.flatMap(([n, , available, used]) => [
      { n, of: "available on the host", gib: available / GIB },
      ...(used === null ? [] : [{ n, of: "used by all of them", gib: used / GIB }]),
    ]);
    const domain = [...new Set(points.map((each) => each.of))];
    const marks = [
      Plot.line(points, { x: "n", y: "gib", stroke: "of", z: "of" }),
      Plot.dot(points, { x: "n", y: "gib", stroke: "of", symbol: "of", r: 2.5 }),
      Plot.ruleY([0]),
    ];
    return picture(
      `Memory as a host is filled: ${own.name}`,
      {
        width, height: 220, marks, x: { label: "targets", nice: true }, y: { label: "GiB", grid: true, nice: true },
        color: { domain, range: COLOURS }, symbol: { domain, range: SYMBOLS, legend: true },
      },
      ["targets", "at, s", "available, GiB", "used, GiB"],
      own.curve.map(([n, at, available, used]) => [String(n), at, available / GIB, used === null ? null : used / GIB]),
      `${own.count} ran. ${own.why}`,
    );
  }

  function beside(data, width) {
    const groups = new Map(); // what is in one unit is in one picture: the shares of two machines, for instance
    for (const [name, own] of Object.entries(data.beside || {})) {
      if (!groups.has(own.unit)) groups.set(own.unit, []);
      groups.get(own.unit).push([name.replaceAll("_", " "), own.values]);
    }
    return [...groups].map(([unit, series]) => {
      const points = series.flatMap(([name, values]) =>
        values.flatMap(([order, ...figures]) =>
          figures.map((value, k) => ({
            order, at: data.samples[order][0], value, name: figures.length > 1 ? `${name} ${k + 1}` : name,
          })),
        ),
      );
      const domain = [...new Set(points.map((each) => each.name))];
      const marks = [
        Plot.line(points, { x: "at", y: "value", stroke: "name", z: "name" }),
        Plot.dot(points, { x: "at", y: "value", stroke: "name", symbol: "name", r: 2.5 }),
      ];
      const told = domain.length <= SYMBOLS.length;
      return picture(
        `Beside the samples, over time${unit ? `, in ${unit}` : ""}`,
        {
          width, height: 220, marks, x: { label: "s" }, y: { label: unit || null, grid: true, nice: true },
          color: { domain, range: domain.map((_, k) => COLOURS[k % COLOURS.length]) },
          symbol: { domain, range: domain.map((_, k) => SYMBOLS[k % SYMBOLS.length]), legend: told },
        },
        ["sample", "at, s", "of", unit || "figure"],
        points.map((each) => [String(each.order), each.at, each.name, each.value]),
        !told && `${domain.length} series; the table names them.`,
      );
    });
  }

  function past(data, width) {
    const own = data.past;
    if (!own || own.runs.length < 2) return null;
    const points = own.runs.map(([started, label, value], k) => ({ k: k + 1, started, label, value }));
    const marks = [
      Plot.ruleX(own.changes, { x: (each) => each.first + 0.5, stroke: "var(--refuted)", strokeDasharray: "5 3" }),
      Plot.text(own.changes, { x: (each) => each.first + 0.5, frameAnchor: "top", dy: -14, text: "word", fill: "var(--refuted)" }),
      Plot.line(points, { x: "k", y: "value", stroke: "var(--a)" }),
      Plot.dot(points, { x: "k", y: "value", fill: "var(--a)", r: 3 }),
    ];
    return picture(
      "History: the runs that were kept",
      { width, height: 200, marginTop: 38, marks, x: { label: "run, the newest at the right", ticks: Math.min(points.length, 10) }, y: { label: own.unit || "ratio", grid: true, nice: true } },
      ["run", "started", "of", own.unit || "ratio"],
      points.map((each) => [String(each.k), each.started, each.label, each.value]),
      own.changes.length ? `Lines: ${own.changes.map((each) => `${each.word} from run ${each.first + 1} on`).join("; ")}.` : "No change is seen among them.",
    );
  }

  function targets(places, name) {
    const made = make("details", {}, make("summary", {}, places.length === 1 ? "The target" : `The ${places.length} targets`));
    made.addEventListener("toggle", () => {
      if (made.children.length > 1) return;
      const cells = places.flatMap((place) => {
        const { kind, name: own, arms: of, details } = shared.targets[place];
        return [[own || kind, "kind", kind], [own || kind, "arms", of.join(", ")], ...Object.entries(details).map(([key, told]) => [own || kind, key, told])];
      });
      made.append(table(`Targets of ${name}`, ["target", "fact", "is"], cells));
    });
    return made;
  }

  // ---- what the page begins with

  for (const head of document.querySelectorAll("th[data-sort]")) {
    const button = make("button", { type: "button" }, head.textContent);
    button.addEventListener("click", () => sort(head));
    head.replaceChildren(button);
  }
  if (rows.length) {
    search.addEventListener("input", filter);
    family.addEventListener("change", filter);
    for (const box of boxes) box.addEventListener("change", filter);
    document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
    more.addEventListener("click", () => { limit = Infinity; filter(); });
    document.getElementById("list").addEventListener("click", (event) => {
      const link = event.target.closest("a.name");
      const row = link && link.closest("tr.claim");
      if (!row) return;
      if (row.opened) {
        event.preventDefault();
        close(row);
      } else if (location.hash === link.hash) {
        event.preventDefault();
        follow();
      }
    });
    for (const link of document.querySelectorAll(".families a")) {
      link.addEventListener("click", () => reset(link.dataset.verdict, link.dataset.family));
    }
    addEventListener("hashchange", follow);
    follow();
    if (rows.length > limit) more.textContent = `Show all ${rows.length}`;
  }
  const hosts = document.getElementById("hosts");
  const claimed = new Set(shared.claimed);
  shared.fillings.forEach((own, place) => {
    if (claimed.has(place)) return;
    hosts.hidden = false;
    hosts.append(curve(own, Math.min(hosts.clientWidth || 600, 700)));
  });
})();
