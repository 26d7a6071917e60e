"""Claims: the sentence a test asserts, its plan, its sampling and its judgement."""
