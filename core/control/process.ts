import { networkNamespace } from "../../platform/network_namespace.ts";

/** The process that answers on a control socket. */
export interface ProxyProcess {
  /** Its id, in its own PID namespace. */
  readonly pid: number;
  /** See `networkNamespace`. */
  readonly networkNamespace: string | undefined;
}

/** This process. */
export function thisProcess(): ProxyProcess {
  return { pid: Deno.pid, networkNamespace: networkNamespace() };
}
