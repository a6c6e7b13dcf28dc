/** Tokens and certificates are rotated while Sluice runs: before they expire, or after. */
import { sleep, systemClock } from "../../platform/clock.ts";
import { statusResponse } from "../fakes/api_server.ts";
import { type CertificatePair, createCertificateAuthority } from "../fakes/certificates.ts";
import { API_LINK, type ChaosLab, withLab } from "./lab.ts";
import type { Counts, Extent, Scenario } from "./scenario.ts";
import { serve, type Serving } from "./serving.ts";
import { startTlsProxy, type TlsProxy } from "./tls_proxy.ts";

/** In nftables mode only, because planning from the API does not depend on the mode. */
export const apiCredentials: readonly Scenario[] = [
  { name: "api: tokens, authorities and client certificates are rotated, in time and late", run: credentials },
];

/** The limit for credentials rotated in time, and after the backoff of others. */
const REST_MS = 3_000;
/** The longest backoff. */
const MAX_BACKOFF_MS = 30_000;
/** As in client-go, a watch that ends within a second counts as a failure and increases the backoff. */
const WATCH_LIFE_MS = 1_200;

/** The files that the kubeconfig names, and the server that checks them. */
interface Access {
  readonly lab: ChaosLab;
  readonly proxy: TlsProxy;
  readonly write: (name: keyof typeof FILES, text: string) => Promise<void>;
}

const FILES = { authority: "ca.pem", certificate: "client.pem", key: "client-key.pem", token: "token" } as const;

interface Rotation {
  readonly name: string;
  /** The server requires the new credential and rejects the old one. */
  require(access: Access): Promise<void> | void;
  /** Writes the new credential for Sluice. */
  provide(access: Access): Promise<void>;
  readonly isLate: boolean;
}

async function credentialsOf(lab: ChaosLab) {
  const authorities = await Promise.all(["one", "two", "three"].map(createCertificateAuthority));
  const [one, two, three] = [authorities[0]!, authorities[1]!, authorities[2]!];
  const identity = async (authority: typeof one, clients: typeof one) => ({
    server: await authority.issue("server", 3, API_LINK.server),
    clientAuthority: clients.cert,
  });
  const first = await one.issue("system:kube-proxy");
  const second = await two.issue("system:kube-proxy");
  const requireToken = (token: string) => {
    lab.api.fault(({ headers }) =>
      headers.get("authorization") === `Bearer ${token}`
        ? undefined
        : statusResponse(401, "Unauthorized", "Unauthorized")
    );
    lab.api.dropWatches();
  };
  const rotations: readonly Rotation[] = [
    {
      name: "a token, in time",
      isLate: false,
      provide: ({ write }) => write("token", "two"),
      require: () => requireToken("two"),
    },
    {
      name: "a token, late",
      isLate: true,
      require: () => requireToken("three"),
      provide: ({ write }) => write("token", "three"),
    },
    {
      name: "the server's authority, in time",
      isLate: false,
      provide: ({ write }) => write("authority", one.cert + two.cert),
      require: async ({ proxy }) => proxy.restart(await identity(two, one)),
    },
    {
      name: "the server's authority, late",
      isLate: true,
      require: async ({ proxy }) => proxy.restart(await identity(three, one)),
      provide: ({ write }) => write("authority", three.cert),
    },
    {
      name: "the client's certificate, late, its key before it",
      isLate: true,
      require: async ({ proxy }) => proxy.restart(await identity(three, two)),
      async provide({ write }) {
        await write("key", second.key);
        await sleep(systemClock, 1000);
        await write("certificate", second.cert);
      },
    },
  ];
  requireToken("one");
  return { identity: await identity(one, one), authority: one.cert, client: first, token: "one", rotations };
}

function credentials({ long }: Extent): Promise<Counts> {
  return withLab(async (lab) => {
    const awayMs = long ? 60_000 : 1_500;
    const { identity, authority, client, token, rotations } = await credentialsOf(lab);
    const proxy = await startTlsProxy(API_LINK.server, lab.api.url, identity);
    const write: Access["write"] = (name, text) => Deno.writeTextFile(`${lab.folder}/${FILES[name]}`, text);
    try {
      await writeAll(write, authority, client, token);
      const serving = await serve(lab, {
        cluster: { server: proxy.url, "certificate-authority": FILES.authority },
        user: { tokenFile: FILES.token, "client-certificate": FILES.certificate, "client-key": FILES.key },
      });
      const counts: Record<string, string | number> = {};
      for (const rotation of rotations) {
        const tookMs = await rotate(rotation, { lab, proxy, write }, serving, awayMs);
        counts[`${rotation.name}: in effect after ms`] = Math.round(tookMs);
      }
      return { ...counts, "late by ms": awayMs, ...await serving.end() };
    } finally {
      await proxy.close();
    }
  });
}

async function writeAll(write: Access["write"], authority: string, client: CertificatePair, token: string) {
  await write("authority", authority);
  await write("certificate", client.cert);
  await write("key", client.key);
  await write("token", token);
}

/** Rotates one credential and resolves with the milliseconds until changes are in effect again. */
async function rotate({ name, require, provide, isLate }: Rotation, access: Access, serving: Serving, awayMs: number) {
  if (!isLate) await provide(access);
  const startedMs = systemClock.monotonic();
  await require(access);
  const outageMs = systemClock.monotonic() - startedMs;
  serving.change();
  if (isLate) {
    await sleep(systemClock, awayMs);
    await serving.assertRulesUnchanged(`${name}: the rules changed while the server refused every request`);
    await provide(access);
  }
  // The backoff doubles with every try and has up to 50 % jitter.
  const waitMs = Math.min(MAX_BACKOFF_MS, 3 * (isLate ? awayMs + outageMs : outageMs));
  const tookMs = await serving.inEffect(waitMs + REST_MS);
  await sleep(systemClock, WATCH_LIFE_MS);
  return tookMs;
}
