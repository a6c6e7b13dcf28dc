import { serverUrl } from "./access.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import type { CredentialPlugin } from "./plugin.ts";

/**
 * What gives a kubeconfig's user its credentials; undefined where there is nothing, or where the file cannot be read, which
 * whoever connects then says.
 */
export function pluginOf(kubeconfig: string, master: string | undefined): CredentialPlugin | undefined {
  try {
    return readKubeconfig(kubeconfig, master ? serverUrl(master, "--master") : undefined).plugin;
  } catch {
    return undefined;
  }
}
