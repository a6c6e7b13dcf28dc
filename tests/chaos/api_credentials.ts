/** Tokens and certificates expire, and are replaced, in time or late, while Sluice runs. */
import assert from "node:assert/strict";
import { sleep, systemClock } from "../../platform/clock.ts";
import { statusResponse } from "../fakes/api_server.ts";
import { type CertificatePair, createCertificateAuthority } from "../fakes/certificates.ts";
import { API_LINK, type ChaosLab, withLab } from "./lab.ts";
import type { Extent, Figures, Scenario } from "./scenario.ts";
import { serve, type Serving } from "./serving.ts";
import { startTlsFront, type TlsFront } from "./tls_front.ts";

/** In nftables mode: what the API says is planned in the same way in every mode. */
export const apiCredentials: readonly Scenario[] = [
  { name: "api: tokens, authorities and client certificates are replaced, in time and late", run: credentials },
];

/** What was replaced in time. */
const AT_ONCE_MS = 3_000;
const REST_MS = 3_000;
/** The longest wait between two tries. */
const LONGEST_WAIT_MS = 30_000;
/** A watch that lives for less than a second counts as a failure, as with client-go, and the waits grow. */
const WATCH_LIFE_MS = 1_200;

/** The files that the kubeconfig names, and the server that they open. */
interface Access {
  readonly lab: ChaosLab;
  readonly front: TlsFront;
  readonly write: (name: keyof typeof FILES, text: string) => Promise<void>;
}

const FILES = { authority: "ca.pem", certificate: "client.pem", key: "client-key.pem", token: "token" } as const;

interface Replacement {
  readonly name: string;
  /** The server asks for the new one, and no longer takes the old one. */
  ask(access: Access): Promise<void> | void;
  /** Sluice is given the new one. */
  give(access: Access): Promise<void>;
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
  const takeToken = (token: string) => {
    lab.api.fault(({ headers }) =>
      headers.get("authorization") === `Bearer ${token}`
        ? undefined
        : statusResponse(401, "Unauthorized", "Unauthorized")
    );
    lab.api.dropWatches();
  };
  const replacements: readonly Replacement[] = [
    {
      name: "a token, in time",
      isLate: false,
      give: ({ write }) => write("token", "two"),
      ask: () => takeToken("two"),
    },
    {
      name: "a token, late",
      isLate: true,
      ask: () => takeToken("three"),
      give: ({ write }) => write("token", "three"),
    },
    {
      name: "the server's authority, in time",
      isLate: false,
      give: ({ write }) => write("authority", one.cert + two.cert),
      ask: async ({ front }) => front.restart(await identity(two, one)),
    },
    {
      name: "the server's authority, late",
      isLate: true,
      ask: async ({ front }) => front.restart(await identity(three, one)),
      give: ({ write }) => write("authority", three.cert),
    },
    {
      name: "the client's certificate, late, its key before it",
      isLate: true,
      ask: async ({ front }) => front.restart(await identity(three, two)),
      async give({ write }) {
        await write("key", second.key);
        await sleep(systemClock, 1000);
        await write("certificate", second.cert);
      },
    },
  ];
  takeToken("one");
  return { identity: await identity(one, one), authority: one.cert, client: first, token: "one", replacements };
}

function credentials({ long }: Extent): Promise<Figures> {
  return withLab(async (lab) => {
    const awayMs = long ? 60_000 : 1_500;
    const { identity, authority, client, token, replacements } = await credentialsOf(lab);
    const front = await startTlsFront(API_LINK.server, lab.api.url, identity);
    const write: Access["write"] = (name, text) => Deno.writeTextFile(`${lab.folder}/${FILES[name]}`, text);
    try {
      await giveAll(write, authority, client, token);
      const serving = await serve(lab, {
        cluster: { server: front.url, "certificate-authority": FILES.authority },
        user: { tokenFile: FILES.token, "client-certificate": FILES.certificate, "client-key": FILES.key },
      });
      const figures: Record<string, string | number> = {};
      for (const replacement of replacements) {
        const tookMs = await replace(replacement, { lab, front, write }, serving, awayMs);
        figures[`${replacement.name}: in effect after ms`] = Math.round(tookMs);
      }
      return { ...figures, "late by ms": awayMs, ...await serving.end() };
    } finally {
      await front.close();
    }
  });
}

async function giveAll(write: Access["write"], authority: string, client: CertificatePair, token: string) {
  await write("authority", authority);
  await write("certificate", client.cert);
  await write("key", client.key);
  await write("token", token);
}

/** Resolves with what it took from then on when Sluice had the new one, and the server asked for it. */
async function replace({ name, ask, give, isLate }: Replacement, access: Access, serving: Serving, awayMs: number) {
  if (!isLate) await give(access);
  await ask(access);
  serving.change();
  if (isLate) {
    await sleep(systemClock, awayMs);
    assert.ok(await serving.holdsStill(), `${name}: the rules have changed while the server refused everything`);
    await give(access);
  }
  // Each wait is twice as long as the one before, and half of it is left to chance.
  const waitMs = Math.min(LONGEST_WAIT_MS, 3 * awayMs);
  const tookMs = await serving.inEffect(isLate ? waitMs + REST_MS : AT_ONCE_MS);
  await sleep(systemClock, WATCH_LIFE_MS);
  return tookMs;
}
