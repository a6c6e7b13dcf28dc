import { serverUrl } from "./access.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import type { CredentialPlugin } from "./plugin.ts";

/**
 * What gives a kubeconfig's user its credentials; undefined where there is nothing, or where the file cannot be read, which
 * whoever connects then says.
 */
export async function pluginOf(
  kubeconfig: string,
  master: string | undefined,
): Promise<CredentialPlugin | undefined> {
  try {
    return (await readKubeconfig(kubeconfig, master ? serverUrl(master, "--master") : undefined)).plugin;
  } catch {
    return undefined;
  }
}
