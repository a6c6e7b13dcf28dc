/** Accumulates a value until it is taken. */
export interface Accumulator<Value> {
  value: Value;
  /** Returns the value and starts again. */
  take(): Value;
}

/** Creates an accumulator that starts with an initial value each time. */
export function createAccumulator<Value>(initial: () => Value): Accumulator<Value> {
  const accumulator: Accumulator<Value> = {
    value: initial(),
    take() {
      const taken = accumulator.value;
      accumulator.value = initial();
      return taken;
    },
  };
  return accumulator;
}
