import assert from "node:assert/strict";
import { authProvider } from "../../../../sources/kubernetes/auth_provider.ts";
import { readKubeconfig } from "../../../../sources/kubernetes/kubeconfig.ts";

const { signal } = new AbortController();

/** An unsigned JWT that expires at this time, in seconds since 1970. */
const idToken = (exp: number) => `${btoa('{"alg":"none"}')}.${btoa(JSON.stringify({ exp }))}.signature`;

/** The plugin of a kubeconfig, in YAML, whose user has this auth-provider, in YAML's flow style. */
async function pluginOf(provider: string) {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(
      path,
      `
clusters: [{ name: c, cluster: { server: "https://10.0.0.1" } }]
users: [{ name: u, user: { auth-provider: ${provider} } }]
contexts: [{ name: c, context: { cluster: c, user: u } }]
current-context: c
`,
    );
    const { plugin } = await readKubeconfig(path);
    assert.equal(plugin?.kind, "auth-provider");
    return { path, running: authProvider(plugin as Extract<typeof plugin, { kind: "auth-provider" }>) };
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("an oidc provider's ID token is used until it expires", async () => {
  const token = idToken(4_000_000_000);
  const { running } = await pluginOf(`{ name: oidc, config: { id-token: ${token}, client-id: 12345678901234567890 } }`);
  assert.deepEqual(await running.credentials(signal), { authorization: `Bearer ${token}` });
});

Deno.test("an expired ID token without a refresh token is not sent", async () => {
  const { running } = await pluginOf(`{ name: oidc, config: { id-token: ${idToken(1)} } }`);
  assert.deepEqual(await running.credentials(signal), { authorization: undefined });
});

Deno.test("an access token is used until it expires; then its provider's program would be needed", async () => {
  for (const name of ["azure", "gcp"]) {
    const withExpiry = (expiry: string) =>
      pluginOf(`{ name: ${name}, config: { access-token: abc, expiry: ${expiry} } }`);
    const { running } = await withExpiry("2100-01-01T00:00:00Z");
    assert.deepEqual(await running.credentials(signal), { authorization: "Bearer abc" });
    const { path, running: expired } = await withExpiry("2000-01-01T00:00:00Z");
    await assert.rejects(expired.credentials(signal), {
      message: `${path}: user "u": the auth-provider "${name}" failed: Token is expired!`,
    });
  }
});

Deno.test("an unknown provider is refused", async () => {
  const { path, running } = await pluginOf("{ name: magic }");
  await assert.rejects(running.credentials(signal), {
    message: `${path}: user "u": the auth-provider "magic" is not supported; use exec`,
  });
});
