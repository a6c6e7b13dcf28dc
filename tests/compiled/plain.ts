import type { CompiledLab } from "./lab.ts";
import { type Held, watchedAgain } from "./held.ts";
import { startNode } from "./node.ts";

/** Starts a proxy that watches the API server: its watch of EndpointSlices is busy, the one of Services idle. */
export async function startPlain(lab: CompiledLab): Promise<Held> {
  const name = "plain";
  const { pid } = await startNode(lab, name, "10.20.0.10", []);
  const watchesBefore = lab.watches(name);
  return {
    processes: { [name]: pid },
    *problems() {
      for (const path of watchedAgain(watchesBefore, lab.watches(name))) yield `it watched ${path} again`;
    },
  };
}
