import { dirname } from "node:path";
import { unlessAborted } from "../../platform/mod.ts";
import type { AuthProviderSection, PluginCredentials, RunningPlugin } from "./plugin.ts";

/**
 * An auth-provider supported by @kubernetes/client-node, run in this isolate. The package is loaded at the first use only: it
 * takes tens of megabytes that a plain kubeconfig does not need. A provider that starts a program fails: that needs `exec`.
 */
export function authProvider(section: AuthProviderSection): RunningPlugin {
  let loaded: Promise<() => Promise<PluginCredentials>> | undefined;
  let pending: Promise<PluginCredentials> | undefined;
  return {
    credentials(signal) {
      loaded ??= loadClientNode(section);
      pending ??= loaded.then((fetchCredentials) => fetchCredentials()).finally(() => {
        pending = undefined;
      });
      return unlessAborted(pending, signal);
    },
    forget() {
      loaded = undefined;
    },
  };
}

async function loadClientNode({ path, text }: AuthProviderSection): Promise<() => Promise<PluginCredentials>> {
  const { KubeConfig } = await import("@kubernetes/client-node");
  const config = new KubeConfig();
  config.loadFromString(text);
  config.makePathsAbsolute(dirname(path));
  const user = config.getCurrentUser();
  return async () => {
    const options: { headers?: Record<string, unknown>; cert?: unknown; key?: unknown } = { headers: {} };
    try {
      await config.applyToHTTPSOptions(options as Parameters<typeof config.applyToHTTPSOptions>[0]);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`the auth-provider of user "${user?.name}" in ${path} failed: ${reason.trim()}`, {
        cause: error,
      });
    }
    const { Authorization: authorization } = options.headers ?? {};
    return {
      ...(typeof authorization === "string" ? { authorization } : {}),
      ...(options.cert === undefined ? {} : { certificate: String(options.cert) }),
      ...(options.key === undefined ? {} : { key: String(options.key) }),
    };
  };
}
