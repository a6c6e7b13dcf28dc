import assert from "node:assert/strict";
import { oidcProvider } from "../../../../sources/kubernetes/oidc.ts";
import { readKubeconfig } from "../../../../sources/kubernetes/kubeconfig.ts";
import { type CertificatePair, createCertificateAuthority } from "../../../fakes/certificates.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const { signal } = new AbortController();

/** An unsigned JWT that expires at this time, in seconds since 1970. */
const idToken = (exp: number, id = "") => `${btoa('{"alg":"none"}')}.${btoa(JSON.stringify({ exp, id }))}.signature`;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** The plugin of a kubeconfig whose user has this auth-provider. */
async function pluginOf(
  provider: { readonly name: string; readonly config?: Readonly<Record<string, unknown>> },
  clock = createFakeClock(),
) {
  const path = await Deno.makeTempFile();
  try {
    const user = { "auth-provider": provider };
    await Deno.writeTextFile(
      path,
      JSON.stringify({
        clusters: [{ name: "c", cluster: { server: "https://10.0.0.1" } }],
        users: [{ name: "u", user }],
        contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
        "current-context": "c",
      }),
    );
    const { plugin } = await readKubeconfig(path);
    assert.equal(plugin?.kind, "auth-provider");
    const start = () => oidcProvider(plugin as Extract<typeof plugin, { kind: "auth-provider" }>, clock);
    return { at: `${path}: user "u": auth-provider "${provider.name}"`, start };
  } finally {
    await Deno.remove(path);
  }
}

/** An issuer: answers of its token endpoint, in turn, and the requests that it got. */
async function withIssuer(
  answers: readonly (() => Response)[],
  test: (
    issuer: string,
    requests: { readonly authorization: string | null; readonly fields: object }[],
  ) => Promise<void>,
  tls?: CertificatePair,
) {
  const requests: { authorization: string | null; fields: object }[] = [], left = [...answers];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {}, ...tls }, async (request) => {
    const { pathname, origin } = new URL(request.url);
    if (pathname === "/realm/.well-known/openid-configuration") {
      return Response.json({ issuer: `${origin}/realm`, token_endpoint: `${origin}/token` });
    }
    if (pathname !== "/token" || request.method !== "POST") return new Response("no", { status: 404 });
    const fields = Object.fromEntries(new URLSearchParams(await request.text()));
    requests.push({ authorization: request.headers.get("authorization"), fields });
    return left.shift()?.() ?? new Response("no more answers", { status: 500 });
  });
  try {
    await test(`http${tls ? "s" : ""}://127.0.0.1:${server.addr.port}/realm`, requests);
  } finally {
    await server.shutdown();
  }
}

const tokens = (id: string, refresh?: string) => () => Response.json({ id_token: id, refresh_token: refresh });
const refused = (error: string, status = 401) => () => Response.json({ error }, { status });

Deno.test("an ID token is used until it expires, without a request", async () => {
  const token = idToken(4_000_000_000);
  const { start } = await pluginOf({
    name: "oidc",
    config: { "id-token": token, "client-id": 12345678901234567890n.toString() },
  });
  assert.deepEqual(await start().credentials(signal), bearer(token));
});

Deno.test("an expired ID token is renewed with the refresh token, which the issuer may replace", async () => {
  const clock = createFakeClock();
  const first = idToken(clock.now() / 1000 + 60, "first"), second = idToken(4e9, "second");
  await withIssuer([tokens(first, "rotated"), tokens(second)], async (issuer, requests) => {
    const config = {
      "idp-issuer-url": issuer,
      "client-id": "kube proxy",
      "client-secret": "s&cret",
      "refresh-token": "once",
    };
    const { start } = await pluginOf({ name: "oidc", config: { ...config, "id-token": idToken(1) } }, clock);
    const running = start();
    assert.deepEqual(await Promise.all([running.credentials(signal), running.credentials(signal)]), [
      bearer(first),
      bearer(first),
    ]);
    assert.deepEqual(await running.credentials(signal), bearer(first));
    assert.deepEqual(requests, [{
      authorization: `Basic ${btoa("kube%20proxy:s%26cret")}`,
      fields: { grant_type: "refresh_token", refresh_token: "once" },
    }]);
    // Ten seconds before its expiry.
    clock.advance(50_001);
    assert.deepEqual(await running.credentials(signal), bearer(second));
    assert.deepEqual(requests[1]?.fields, { grant_type: "refresh_token", refresh_token: "rotated" });
  });
});
Deno.test("an issuer that does not take the secret from the header gets it in the body; without one, only the client", async () => {
  await withIssuer([refused("invalid_client"), tokens(idToken(4e9))], async (issuer, requests) => {
    const config = {
      "idp-issuer-url": `${issuer}/`,
      "client-id": "id",
      "client-secret": "secret",
      "refresh-token": "r",
    };
    const { start } = await pluginOf({ name: "oidc", config });
    assert.deepEqual(await start().credentials(signal), bearer(idToken(4e9)));
    const grant = { grant_type: "refresh_token", refresh_token: "r", client_id: "id" };
    assert.deepEqual(requests[1], { authorization: null, fields: { ...grant, client_secret: "secret" } });
  });
  await withIssuer([tokens(idToken(4e9))], async (issuer, requests) => {
    const config = { "idp-issuer-url": issuer, "client-id": "id", "refresh-token": "r" };
    await (await pluginOf({ name: "oidc", config })).start().credentials(signal);
    const grant = { grant_type: "refresh_token", refresh_token: "r", client_id: "id" };
    assert.deepEqual(requests, [{ authorization: null, fields: grant }]);
  });
});

Deno.test("after the API server has refused a token, it is renewed, also before its expiry", async () => {
  await withIssuer([tokens(idToken(4e9, "new"))], async (issuer) => {
    const config = {
      "idp-issuer-url": issuer,
      "client-id": "id",
      "refresh-token": "r",
      "id-token": idToken(4e9, "old"),
    };
    const running = (await pluginOf({ name: "oidc", config })).start();
    assert.deepEqual(await running.credentials(signal), bearer(idToken(4e9, "old")));
    running.forget();
    assert.deepEqual(await running.credentials(signal), bearer(idToken(4e9, "new")));
  });
  const running = (await pluginOf({ name: "oidc", config: { "id-token": idToken(4e9) } })).start();
  running.forget();
  assert.deepEqual(await running.credentials(signal), bearer(idToken(4e9)), "it cannot be renewed");
});

Deno.test("an error says what failed and names no token", async () => {
  const errorOf = async (config: Readonly<Record<string, string>>) => {
    const { at, start } = await pluginOf({ name: "oidc", config });
    const error = await start().credentials(signal).then(() => assert.fail(), (error: Error) => error);
    assert.ok(error.message.startsWith(`${at}: `), error.message);
    assert.ok(!/old-refresh|client-secret-text/.test(error.message));
    return error.message.slice(at.length + 2);
  };
  const expired = { "id-token": idToken(1), "client-id": "id", "idp-issuer-url": "http://127.0.0.1:1" };
  assert.equal(
    await errorOf(expired),
    "the ID token is missing or has expired, and cannot be renewed without refresh-token",
  );
  assert.equal(await errorOf({ "id-token": "a.b.c" }), "the ID token is no JWT with a time of expiry");
  const config = { ...expired, "refresh-token": "old-refresh", "client-secret": "client-secret-text" };
  const endless = () => new Response(new ReadableStream({ pull: (stream) => stream.enqueue(new Uint8Array(65_536)) }));
  for (
    const [answer, message] of [
      [refused("invalid_grant", 400), / answered 400 \(invalid_grant\)$/],
      [tokens(undefined as unknown as string), / gave no ID token/],
      [tokens("no-jwt"), /is no JWT/],
      [() => new Response("<html>", { status: 200 }), / answered 200$/],
      [endless, / answered more than 1 MiB$/],
    ] as const
  ) {
    await withIssuer([answer, answer], async (issuer) => {
      assert.match(await errorOf({ ...config, "idp-issuer-url": issuer }), message);
    });
  }
  await withIssuer([], async (issuer) => {
    assert.match(
      await errorOf({ ...config, "idp-issuer-url": `${issuer}/other` }),
      /openid-configuration answered 404$/,
    );
  });
});

Deno.test("any other auth-provider is refused at the start, as client-go refuses it", async () => {
  for (const name of ["azure", "gcp", "magic"]) {
    const { at, start } = await pluginOf({ name });
    assert.throws(start, { message: `${at} is not supported; use exec` });
  }
});

Deno.test("the issuer's certificate may be signed by a CA in the kubeconfig or in a file, and by no other", async () => {
  const authority = await createCertificateAuthority("issuer");
  const token = idToken(4_000_000_000, "new");
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/ca.pem`, authority.cert);
  const own = [
    { "idp-certificate-authority-data": btoa(authority.cert) },
    { "idp-certificate-authority": `${folder}/ca.pem` },
    { "idp-certificate-authority-data": btoa(authority.cert), "idp-certificate-authority": `${folder}/missing.pem` },
  ];
  await withIssuer(own.map(() => tokens(token)), async (issuer) => {
    const credentials = async (ca: object) => {
      const config = { "idp-issuer-url": issuer, "client-id": "sluice", "refresh-token": "r", "id-token": idToken(0) };
      const { start } = await pluginOf({ name: "oidc", config: { ...config, ...ca } });
      return await (await start()).credentials(signal);
    };
    for (const ca of own) assert.deepEqual(await credentials(ca), bearer(token));
    await assert.rejects(credentials({}), /UnknownIssuer|invalid peer certificate/);
  }, await authority.issue("issuer"));
  await Deno.remove(folder, { recursive: true });
});
