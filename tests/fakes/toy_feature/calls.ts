import type { AnsweredCall } from "../../../features/contract.ts";
import * as shape from "../../../platform/shapes/mod.ts";
import type { Greeted, Greeting } from "./greeting.ts";

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
