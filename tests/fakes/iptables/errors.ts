/** What iptables finds wrong before it touches anything: exit status 2, with the line and a hint at the help. */
export class ParameterProblem extends Error {
  override readonly name = "ParameterProblem";
  /** @param bare whether the program's name is left out, as it is for arguments that belong nowhere */
  constructor(message: string, readonly bare = false) {
    super(message);
  }
}

/** A command that does not fit what is there: exit status 1. */
export class CommandRefused extends Error {
  override readonly name = "CommandRefused";
}

/** A command that the kernel refuses: with nf_tables exit status 4, told when the transaction is committed. */
export class KernelRefused extends Error {
  override readonly name = "KernelRefused";
  /** @param operation `RULE_APPEND` @param reason the text of the error number @param what `rule in chain X` */
  constructor(readonly operation: string, readonly reason: string, readonly what: string) {
    super(`${operation} failed (${reason}): ${what}`);
  }
}

/** The real tools know it and the fake does not: a test must not take an answer for theirs. */
export class Uninterpreted extends Error {
  override readonly name = "Uninterpreted";
  constructor(what: string) {
    super(`the fake iptables does not interpret ${what}`);
  }
}
