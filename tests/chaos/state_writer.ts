/**
 * Writes states to the state file of a folder as fast as it can, until it is killed:
 *
 *     state_writer.ts FOLDER FIRST
 *
 * The payload of the write number N, counted from FIRST, is that of `payloadOf(N)`. Prints each number once it is written.
 */
import { openStateDirectory, type StateOrigin } from "../../sources/kept/state_file.ts";

/** The origin of the states. */
export const ORIGIN: StateOrigin = { node: "node", source: "kube https://10.0.0.1:6443", proxyName: "" };

/** The payload of a write: its number, over and over, in a length that differs from that of its neighbours. */
export function payloadOf(number: number): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${number} `.repeat(1000 + (number * 7919) % 50_000));
}

if (import.meta.main) {
  const [folder, first] = Deno.args as [string, string];
  const file = openStateDirectory(folder);
  for (let number = Number(first);; number++) {
    await file.write(ORIGIN, { payload: payloadOf(number), atMs: number });
    console.log(number);
  }
}
