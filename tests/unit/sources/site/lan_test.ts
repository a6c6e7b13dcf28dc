/** How the nodes of a site find their leader on the LAN, and whom they believe. */
import assert from "node:assert/strict";
import { type Fields, silentLogger } from "../../../../platform/log.ts";
import { createLan, type Lan } from "../../../../sources/site/lan.ts";
import { encodeQuestion, encodeSigned, type Statement, statementText } from "../../../../sources/site/lan_messages.ts";
import type { Heard } from "../../../../sources/site/lan_state.ts";
import type { LeaseRecord } from "../../../../sources/site/lease.ts";
import { type Proofs, proofsOf } from "../../../../sources/site/proof.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../../../fakes/certificates.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createLanHub, fakeProofs } from "../../../fakes/lan_hub.ts";

function lease(node: string, version = "7", renewedMs = 1000): LeaseRecord {
  const about = { address: `${node}:12091`, certificate: "pem", durationMs: 30_000, transitions: 2, term: "t" };
  return { node, version, renewedMs, ...about };
}

const leaderOf = (node: string): Statement => ({ kind: "leader", record: lease(node) });

/** A LAN of nodes, each with a fixed answer. */
function setUp(proofs: (node: string) => Proofs = fakeProofs) {
  const clock = createFakeClock(Date.now());
  const hub = createLanHub(clock, () => 0.5);
  const ended = new AbortController();
  const start = async (node: string, answer?: Statement, known = lease("a", "6", 0)) => {
    const renewed: LeaseRecord[] = [];
    const lan = createLan({
      site: "north",
      node,
      open: hub.open(node),
      certificates: { proofs: () => Promise.resolve(proofs(node)) },
      answer: () => answer,
      isNews: ({ renewedMs }) => renewedMs > known.renewedMs,
      onRenewed: (record) => renewed.push(record),
      clock,
      logger: silentLogger,
      random: () => 0.5,
    });
    void lan.run(ended.signal);
    await clock.advanceSettled(0);
    return { ...lan, renewed };
  };
  const ask = async (lan: Lan, isNew = true): Promise<Heard> => {
    const answer = lan.ask({ rank: 0.5, isNew }, ended.signal);
    await clock.advanceSettled(1000);
    return await answer;
  };
  /** What a host has sent. */
  const sentBy = (host: string) => hub.sent.filter(({ from }) => from === host).map(({ data }) => data);
  return { clock, hub, start, ask, sentBy, stop: () => ended.abort() };
}

Deno.test("a node hears the leader's Lease on the LAN, and nothing if nobody leads", async () => {
  const { start, ask, stop } = setUp();
  const b = await start("b");
  await start("c");
  assert.deepEqual(await ask(b), { isCandidate: false, isPreceded: false });
  await start("a", leaderOf("a"));
  assert.deepEqual(await ask(b), { isCandidate: false, isPreceded: false, lease: { record: lease("a"), ageMs: 0 } });
  stop();
});

Deno.test("another node's word counts about the Lease that it has seen, only for a node that has seen none, never as a leader's", async () => {
  const { start, ask, stop } = setUp();
  const b = await start("b");
  await start("c", { kind: "seen", record: lease("a"), ageMs: 3000 });
  assert.deepEqual((await ask(b)).lease, { record: lease("a"), ageMs: 3000 });
  assert.equal((await ask(b, false)).lease, undefined);
  stop();
  const second = setUp();
  const d = await second.start("d");
  await second.start("c", leaderOf("a"));
  assert.equal((await second.ask(d)).lease, undefined, "c says that a leads");
  second.stop();
});

Deno.test("a last leader and a candidate are heard together", async () => {
  const { start, ask, stop } = setUp();
  const b = await start("b");
  const leader = { node: "a", address: "a:12091", certificate: "pem" };
  await start("a", { kind: "last-leader", leader, isCandidate: false });
  assert.deepEqual(await ask(b), { isCandidate: false, isPreceded: false, lastLeader: leader });
  await start("c", { kind: "candidate" });
  assert.deepEqual(await ask(b), { isCandidate: true, isPreceded: false, lastLeader: leader });
  stop();
});

Deno.test("no node can name another one as the last leader", async () => {
  const { start, ask, stop } = setUp();
  const b = await start("b");
  const leader = { node: "a", address: "c:12091", certificate: "pem" };
  await start("c", { kind: "last-leader", leader, isCandidate: true });
  assert.deepEqual(await ask(b), { isCandidate: false, isPreceded: false });
  stop();
});

Deno.test("an answer of a busy node counts a little later, a recorded one no more", async () => {
  const { clock, hub, start, ask, sentBy, stop } = setUp();
  const b = await start("b");
  const a = await start("a", leaderOf("a"));
  assert.ok((await ask(b)).lease);
  const [recorded] = sentBy("a");
  hub.isCut = true;
  const hears = async () => {
    const answer = b.ask({ rank: 0.5, isNew: true }, new AbortController().signal);
    hub.deliver(recorded!);
    await clock.advanceSettled(1000);
    return (await answer).lease !== undefined;
  };
  assert.equal(await hears(), true);
  assert.equal(await hears(), false);
  assert.ok(a.isHeard(60_000));
  stop();
});

Deno.test("a leader's announcement counts if it is later than what is known; a replayed or forged one does not", async () => {
  const { clock, hub, start, sentBy, stop } = setUp();
  const b = await start("b");
  const a = await start("a");
  a.announce(lease("a", "7", 1000));
  await clock.advanceSettled(1000);
  assert.deepEqual(b.renewed, [{ ...lease("a", "7", 1000), address: "", certificate: "" }]);
  const late = await start("late", undefined, lease("a", "9", 5000));
  hub.deliver(sentBy("a").at(-1)!);
  await clock.advanceSettled(1000);
  assert.deepEqual(late.renewed, []);

  const body = statementText({ site: "north", node: "a", nonces: [] }, leaderOf("a"));
  const forged = { ...fakeProofs("c").sign(body), certificate: "a" };
  const before = b.renewed.length;
  hub.deliver(encodeSigned(body, forged));
  await clock.advanceSettled(1000);
  assert.equal(b.renewed.length, before);
  stop();
});

Deno.test("a leader answers many nodes at once, and a flood of questions with few signatures", async () => {
  const { clock, hub, start, sentBy, stop } = setUp();
  await start("a", leaderOf("a"));
  const flood = async (count: number, site = "north") => {
    const before = sentBy("a").length;
    for (let index = 0; index < count; index++) {
      hub.deliver(encodeQuestion({ site, node: "x", nonce: `${index}`, rank: 0, isNew: true }));
    }
    await clock.advanceSettled(500);
    return sentBy("a").length - before;
  };
  assert.equal(await flood(20), 1);
  assert.equal(await flood(5, "south"), 0, "another site");
  assert.ok(await flood(5000) <= 40);
  await clock.advanceSettled(3000);
  assert.equal(await flood(1), 1, "it answers again afterwards");
  stop();
});

Deno.test("one node's word about the Lease suffices: the others keep silent", async () => {
  const { start, ask, hub, stop } = setUp();
  const b = await start("b");
  for (const name of ["c", "d"]) await start(name, { kind: "seen", record: lease("a"), ageMs: 0 });
  assert.ok((await ask(b)).lease);
  assert.equal(hub.sent.filter(({ from }) => from !== "b").length, 2, "both waited equally long here");
  stop();
});

Deno.test("a node that asks hears that another one of a lower rank asks, too", async () => {
  const { start, ask, clock, stop } = setUp();
  const b = await start("b"), c = await start("c");
  const isPreceded = async (rank: number) => {
    void c.ask({ rank, isNew: true }, new AbortController().signal);
    const { isPreceded } = await ask(b);
    await clock.advanceSettled(1000);
    return isPreceded;
  };
  assert.equal(await isPreceded(0.4), true);
  assert.equal(await isPreceded(0.6), false);
  stop();
});

Deno.test("each cause for which a node cannot ask is logged once as a warning, then as a detail, until it works again", async () => {
  const clock = createFakeClock();
  const hub = createLanHub(clock, () => 0.5);
  const logged: string[] = [];
  const log = (level: string) => (_message: string, fields?: Fields) => void logged.push(`${level}: ${fields?.error}`);
  const levels = (error: string) =>
    logged.filter((line) => line.endsWith(error)).map((line) => line.split(":")[0]).join(" ");
  let hasSocket = false, hasCertificate = false;
  const failure = (error: string) => Promise.reject(new Error(error));
  const lan = createLan({
    site: "north",
    node: "a",
    open: (onDatagram) => hasSocket ? hub.open("a")(onDatagram) : failure("no socket"),
    certificates: { proofs: () => hasCertificate ? Promise.resolve(fakeProofs("a")) : failure("no certificate") },
    answer: () => undefined,
    isNews: () => false,
    onRenewed: () => {},
    clock,
    logger: { ...silentLogger, warn: log("warn"), debug: log("debug") },
    random: () => 0.5,
  });
  const run = async () => {
    const ended = new AbortController();
    void lan.run(ended.signal);
    await clock.advanceSettled(0);
    return async () => {
      ended.abort();
      await clock.advanceSettled(0);
    };
  };
  /** Signs once, with files that are read again. */
  const announce = async () => {
    lan.announce(lease("a"));
    await clock.advanceSettled(61_000);
  };
  const stop = await run();
  for (const isThere of [false, false, false, true, false]) {
    hasCertificate = isThere;
    await announce();
  }
  assert.equal(levels("no certificate"), "warn debug debug warn");
  assert.match(levels("no socket"), /^warn( debug)+$/);
  hasSocket = true;
  await clock.advanceSettled(30_000);
  await stop();
  hasSocket = false;
  const stopAgain = await run();
  assert.match(levels("no socket"), /^warn( debug)+ warn$/);
  await stopAgain();
});

Deno.test("datagrams with anything in them do no harm", async () => {
  const { clock, hub, start, ask, stop } = setUp();
  const b = await start("b");
  const encoder = new TextEncoder();
  const texts = ["", "{", "null", "[]", "{}", '{"ask":null}', '{"ask":{}}', "\u0000".repeat(2000), "[".repeat(5000)];
  const signed = (body: unknown) => JSON.stringify({ body: JSON.stringify(body), certificate: "a", signature: "s" });
  for (const statement of [null, {}, { kind: "leader" }, { kind: "leader", record: { node: 1 } }, { kind: "seen" }]) {
    texts.push(signed({ site: "north", node: "a", nonce: "", statement }));
  }
  texts.push(signed(null), JSON.stringify({ body: "{", certificate: "", signature: "" }), "x".repeat(65_000));
  for (const text of texts) hub.deliver(encoder.encode(text));
  hub.deliver(crypto.getRandomValues(new Uint8Array(3000)));
  await clock.advanceSettled(1000);
  await start("a", leaderOf("a"));
  assert.ok((await ask(b)).lease);
  stop();
});

Deno.test("only a kubelet's certificate of the site's authority proves who speaks, and only for its own node", async () => {
  const own = await createCertificateAuthority("ca"), foreign = await createCertificateAuthority("ca");
  const isNode = (organizations: readonly string[], names: readonly string[], node: string) =>
    organizations.includes("system:nodes") && names.includes(`system:node:${node}`);
  const issue = async (authority: CertificateAuthority, name: string, organization = "system:nodes") => {
    const { cert, key } = await authority.issueToClient(`system:node:${name}`, organization);
    return await proofsOf({ ca: own.cert, crt: cert + key, key: cert + key }, isNode);
  };
  const b = await issue(own, "b");
  const isBelieved = (speaker: Proofs, node = "a", nowMs = Date.now(), text = "I lead") =>
    b.isSigned(text, node, speaker.sign("I lead"), nowMs);
  assert.equal(isBelieved(await issue(own, "a")), true);
  assert.equal(isBelieved(await issue(own, "a"), "c"), false, "as another node");
  assert.equal(isBelieved(await issue(own, "a"), "a", Date.now(), "you lead"), false, "another text");
  assert.equal(isBelieved(await issue(own, "a", "system:masters")), false, "another group");
  assert.equal(isBelieved(await issue(foreign, "a")), false, "another authority of the same name");
  assert.equal(isBelieved(await issue(own, "a"), "a", Date.now() + 2 * 86_400_000), false, "after its end");
  const stolen = {
    ...(await issue(own, "c")).sign("I lead"),
    certificate: (await issue(own, "a")).sign("").certificate,
  };
  assert.equal(b.isSigned("I lead", "a", stolen, Date.now()), false, "with a certificate whose key it lacks");
  assert.equal(b.isSigned("I lead", "a", { certificate: "!", signature: "!" }, Date.now()), false);
});
