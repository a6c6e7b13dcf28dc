import type { Backend, BackendOptions, HostQuestion } from "../contract/mod.ts";
import { loadIptables } from "../iptables/mod.ts";
import { type Layout, USERSPACE_LAYOUTS } from "../xtables/mod.ts";

/** The code of userspace mode, as the registry needs it. */
interface UserspaceCode {
  readonly create: (options: BackendOptions) => Backend;
  readonly examine: (host: HostQuestion) => Promise<void>;
  readonly layout: Layout;
  /** Does nothing: iptables mode takes over the chains of this mode and removes them. */
  readonly removeTraces: () => Promise<void>;
}

/** Loads the code of userspace mode. */
export async function userspaceCode(): Promise<UserspaceCode> {
  const { createIptablesBackend, IPTABLES_CODE: { examine } } = await loadIptables();
  // The nat rules lead to the relay, which counts connections to endpoints.
  const variant = { layouts: USERSPACE_LAYOUTS, routesLoopback: false, countingTables: ["filter"] as const };
  return {
    create: (options) => createIptablesBackend(options, variant),
    examine,
    layout: USERSPACE_LAYOUTS.IPv4,
    removeTraces: () => Promise.resolve(),
  };
}
