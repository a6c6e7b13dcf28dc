import type { AnsweredCall } from "../../../features/contract.ts";
import { ifValid, record, text } from "../../../platform/shapes/mod.ts";

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
  request: record({ greeting: text(/^[a-z ]+$/) }),
  checked: ifValid(record({ words: text(/^[a-z ]+, IPv[46]$/) })),
  async handle(worker, request) {
    const { greetFamily } = await import("./worker.ts");
    return greetFamily(worker, request);
  },
};
