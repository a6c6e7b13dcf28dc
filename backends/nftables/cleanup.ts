import type { BackendOptions } from "../contract/mod.ts";
import { KUBE_PROXY_TABLE, TABLE } from "./table.ts";
import { createNftTools } from "./tools.ts";

/** Deletes the family's tables of Sluice and of kube-proxy's nftables mode. Throws if that fails. */
export async function removeNftablesTraces(options: BackendOptions): Promise<void> {
  await remove([TABLE, KUBE_PROXY_TABLE], options);
}

/** Deletes the family's table of kube-proxy's nftables mode. Throws if that fails. */
export async function removeKubeProxyTable(options: BackendOptions): Promise<void> {
  await remove([KUBE_PROXY_TABLE], options);
}

async function remove(names: readonly string[], { family, runner, logger }: BackendOptions): Promise<void> {
  const tools = createNftTools(family, runner);
  for (const name of names) {
    if (await tools.removeTable(name)) logger.info("deleted nftables table", { table: name });
  }
}
