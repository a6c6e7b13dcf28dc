/** A benchmarked stage between the API server and the kernel's tools. */
export interface Stage<State = unknown> {
  readonly name: string;
  /** Creates the stage's input for `size` services. */
  prepare(size: number): PreparedStage<State>;
}

/** A stage with its input. */
export interface PreparedStage<State = unknown> {
  /** Processes all services from scratch and returns the retained state. */
  fill(): State | Promise<State>;
  /**
   * Changes one service and returns the function to measure, which processes the change.
   * @param state what `fill` returned last
   * @param index the service
   * @param round from 1; a service differs in each
   */
  change(state: State, index: number, round: number): () => unknown;
}
