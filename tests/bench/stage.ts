/** A stage of a change's way from the API server to the kernel's tools, as a benchmark sees it. */
export interface Stage<State = unknown> {
  readonly name: string;
  /** Makes the stage's input for that many services. */
  prepare(size: number): PreparedStage<State>;
}

/** A stage with its input. */
export interface PreparedStage<State = unknown> {
  /** Takes in all services, from nothing; returns what is kept of them. */
  fill(): State | Promise<State>;
  /**
   * Changes one service and returns what takes the change in, so that only this is measured.
   * @param state what `fill` returned last
   * @param index the service
   * @param round from 1; a service looks different in each
   */
  change(state: State, index: number, round: number): () => unknown;
}
