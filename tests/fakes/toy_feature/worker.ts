import type { FamilyWorker } from "../../../features/contract.ts";
import type { Greeted, Greeting } from "./greeting.ts";

/** Greets the family of a worker. */
export function greetFamily({ options: { family } }: FamilyWorker, { greeting }: Greeting): Greeted {
  return { words: `${greeting}, ${family}` };
}
