import type { AnsweredCall } from "../../../features/contract.ts";
import * as shape from "../../../platform/shapes/mod.ts";

/** Whom to greet, and how. */
export interface Greeting {
  readonly greeting: string;
}

/** The greeting of a family. */
export interface Greeted {
  readonly words: string;
}

/** Greets the family of a worker. */
export const greet: AnsweredCall<Greeting, Greeted> = {
  name: "greet",
  request: shape.record({ greeting: shape.text(/^[a-z ]+$/) }),
  checked: shape.ifValid(shape.record({ words: shape.text(/^[a-z ]+, IPv[46]$/) })),
  async handle(worker, request) {
    const { greetFamily } = await import("./worker.ts");
    return greetFamily(worker, request);
  },
};
