import { serverUrl } from "./access.ts";
import { readKubeconfig } from "./kubeconfig.ts";

/**
 * The program that gives a kubeconfig's user its credentials; undefined where there is none, or where the file cannot be
 * read, which whoever connects then says.
 */
export function pluginProgram(kubeconfig: string, master: string | undefined): string | undefined {
  try {
    const { plugin } = readKubeconfig(kubeconfig, master ? serverUrl(master, "--master") : undefined);
    return plugin?.kind === "exec" ? plugin.exec.command : undefined;
  } catch {
    return undefined;
  }
}
