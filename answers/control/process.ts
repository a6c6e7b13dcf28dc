import { networkNamespace } from "../../platform/mod.ts";

/** The process that answers on a control socket. */
export interface ProxyProcess {
  /** Its id, in its own PID namespace. */
  readonly pid: number;
  /** See `networkNamespace`. */
  readonly networkNamespace: string | undefined;
}

let known: ProxyProcess | undefined;

/** This process, as it was at the first call: a process that has given up its rights may not read all of this. */
export function thisProcess(): ProxyProcess {
  known ??= { pid: Deno.pid, networkNamespace: networkNamespace() };
  return known;
}
