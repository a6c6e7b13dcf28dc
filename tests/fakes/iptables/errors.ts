/** An error in the arguments: exit status 2, with the line and a hint at the help. */
export class ParameterProblem extends Error {
  override readonly name = "ParameterProblem";
  /** @param bare whether the message is printed without the program's name, as for unexpected arguments */
  constructor(message: string, readonly bare = false) {
    super(message);
  }
}

/** A command that conflicts with the existing rules: exit status 1. */
export class CommandRefused extends Error {
  override readonly name = "CommandRefused";
}

/** A command that the kernel refuses; with nf_tables exit status 4, reported at the commit of the transaction. */
export class KernelRefused extends Error {
  override readonly name = "KernelRefused";
  /** @param operation `RULE_APPEND` @param reason the text of the error number @param what `rule in chain X` */
  constructor(readonly operation: string, readonly reason: string, readonly what: string) {
    super(`${operation} failed (${reason}): ${what}`);
  }
}

/** The real tools support this, but the fake does not, so that a test cannot rely on it. */
export class Unsupported extends Error {
  override readonly name = "Unsupported";
  constructor(what: string) {
    super(`the fake does not support ${what}`);
  }
}
