import { networkNamespace } from "../../platform/mod.ts";

/** The process that answers on a control socket. */
export interface ProxyProcess {
  /** Its id, in its own PID namespace. */
  readonly pid: number;
  /** See `networkNamespace`. */
  readonly networkNamespace: string | undefined;
}

let known: ProxyProcess | undefined;

/** This process, read at the first call: after dropping privileges it could not read its network namespace. */
export function thisProcess(): ProxyProcess {
  known ??= { pid: Deno.pid, networkNamespace: networkNamespace() };
  return known;
}

/** The file beside a control socket that holds the id of the process behind it, since a stopped process cannot answer with it. */
export function pidFileOf(path: string): string {
  return `${path}.pid`;
}
