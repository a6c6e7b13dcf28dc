import { loadYaml } from "../../platform/mod.ts";
import type { ApiServer } from "../kubernetes/mod.ts";
import { NAME } from "./objects.ts";

/** Returns a kubeconfig for an API server and a token. */
export async function kubeconfigText({ server, ca, serverName }: ApiServer, token: string): Promise<string> {
  const { stringify } = await loadYaml();
  const certificates = ca === undefined ? {} : { "certificate-authority-data": base64(ca) };
  const named = serverName === undefined ? {} : { "tls-server-name": serverName };
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: NAME, cluster: { server, ...named, ...certificates } }],
    users: [{ name: NAME, user: { token } }],
    contexts: [{ name: NAME, context: { cluster: NAME, user: NAME } }],
    "current-context": NAME,
  }, { lineWidth: 0 });
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
