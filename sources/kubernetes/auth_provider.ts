import { unlessAborted } from "../../platform/mod.ts";
import type { AuthProviderSection, PluginCredentials, RunningPlugin } from "./access.ts";

/**
 * Starts an auth-provider that @kubernetes/client-node supports, in this isolate. A provider that starts a program fails:
 * that needs `exec`.
 */
export function authProvider(section: AuthProviderSection): RunningPlugin {
  let loaded: Promise<() => Promise<PluginCredentials>> | undefined;
  let pending: Promise<PluginCredentials> | undefined;
  return {
    credentials(signal) {
      loaded ??= load(section);
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

async function load({ where, name = "", config }: AuthProviderSection): Promise<() => Promise<PluginCredentials>> {
  const user = { name: where, authProvider: { name, config: { ...config } } };
  const provider = (await supportedProviders()).find((one) => one.isAuthProvider(user));
  if (provider === undefined) throw new Error(`${where}: the auth-provider "${name}" is not supported; use exec`);
  return async () => {
    const options: { headers: Record<string, string> } = { headers: {} };
    try {
      await provider.applyAuthentication(user, options);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`${where}: the auth-provider "${name}" failed: ${reason.trim()}`, { cause: error });
    }
    return { authorization: options.headers.Authorization };
  };
}

// The package's index, with the whole API, would be 3.5 MB of the executable, which Deno keeps in memory.
async function supportedProviders() {
  const [{ AzureAuth }, { GoogleCloudPlatformAuth }, { FileAuth }, { OpenIDConnectAuth }] = await Promise.all([
    import("@kubernetes/client-node/dist/azure_auth.js"),
    import("@kubernetes/client-node/dist/gcp_auth.js"),
    import("@kubernetes/client-node/dist/file_auth.js"),
    import("@kubernetes/client-node/dist/oidc_auth.js"),
  ]);
  return [new AzureAuth(), new GoogleCloudPlatformAuth(), new FileAuth(), new OpenIDConnectAuth()];
}
