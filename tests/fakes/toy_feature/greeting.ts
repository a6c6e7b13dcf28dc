/** Whom to greet, and how. */
export interface Greeting {
  readonly greeting: string;
}

/** The greeting of a family. */
export interface Greeted {
  readonly words: string;
}
