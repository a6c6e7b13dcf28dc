/** `sluice top` on a pseudo-terminal, connected to a running proxy. */
import assert from "node:assert/strict";
import { listenOnControlSocket } from "../../answers/control/socket.ts";
import { errorText } from "../../platform/log.ts";
import { inTime, waitFor } from "../chaos/wait.ts";
import { endChild } from "../children.ts";
import { withManifests, withWholeProxy } from "../fakes/whole_proxy.ts";
import { manifestsOf } from "./cluster.ts";
import type { ProxyUnderTest } from "./proxy_under_test.ts";

const MAIN = new URL("../../main.ts", import.meta.url).pathname;
const TIMEOUT_MS = 20_000;
const WEB = { at: "default/web", clusterIPs: ["10.96.0.10"], endpoints: [{ address: "10.244.1.11" }] };
const EMPTY = { at: "default/empty", clusterIPs: ["10.96.0.20"], endpoints: [] };

const top = (socket: string) => [Deno.execPath(), "run", "-A", "--quiet", MAIN, "top", "--control-socket", socket];

function withSocket(test: (proxy: ProxyUnderTest, socket: string) => Promise<void>): Promise<void> {
  return withManifests(manifestsOf([WEB, EMPTY]), async ({ args, write }) => {
    const folder = await Deno.makeTempDir();
    const socket = `${folder}/control.sock`;
    const controlSocket = await listenOnControlSocket(socket);
    try {
      const all = [...args, "--hostname-override", "node-1"];
      await withWholeProxy({ args: all, controlSocket }, async (proxy) => {
        const isInSync = async () => (await (await fetch(proxy.url)).text()).includes("all in sync");
        await waitFor("the proxy is in sync", TIMEOUT_MS, isInSync, 20);
        await test({ ...proxy, write }, socket);
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

/** Runs a command line in a shell on a pseudo-terminal. */
async function inTerminal(
  commandLine: string,
  test: (terminal: { shows(text: RegExp): Promise<string>; type(keys: string): Promise<void> }) => Promise<void>,
): Promise<string> {
  const child = new Deno.Command("script", {
    args: ["--quiet", "--return", "--echo", "never", "--command", commandLine, "/dev/null"],
    env: { TERM: "xterm", SHELL: "/bin/sh", NO_COLOR: "" },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  let shown = "";
  const reading = child.stdout.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({
      write(text) {
        shown += text;
      },
    }),
  );
  const keyboard = child.stdin.getWriter();
  const shows = async (text: RegExp) => {
    await waitFor(`the terminal shows ${text}`, TIMEOUT_MS, () => text.test(shown)).catch((error) => {
      throw new Error(`${errorText(error)}:\n${shown}`);
    });
    // The next call only considers new output.
    const seen = shown;
    shown = "";
    return seen;
  };
  try {
    await test({ shows, type: (keys) => keyboard.write(new TextEncoder().encode(keys)) });
    await keyboard.close();
    await inTime("the shell ends", TIMEOUT_MS, child.status);
  } finally {
    await endChild(child);
    await reading;
  }
  return shown;
}

// deno-lint-ignore no-control-regex -- the sequences that start and end a frame
const TWO_FRAMES = /\x1b\[J[^]*\x1b\[H[^]*\x1b\[J/;
// deno-lint-ignore no-control-regex -- colours and erase-line sequences
const STYLES = /\x1b\[[0-9;]*[mK]/g;

const quoted = (words: readonly string[]) => words.map((word) => `'${word}'`).join(" ");

for (const [name, key] of [["q", "q"], ["Ctrl-C", "\x03"]] as const) {
  Deno.test(`top shows changes, follows the terminal's size, and restores the terminal on ${name}`, () =>
    withSocket(async (proxy, socket) => {
      const before = "stty rows 30 cols 100; stty -g; tty";
      const line = `${before}; ${quoted(top(socket))}; echo "status $?"; stty -g; echo end`;
      let settings = "";
      const rest = await inTerminal(line, async ({ shows, type }) => {
        const first = await shows(/default\/empty:http/);
        const [, given, device] = /^(\S+)\r?\n(\/dev\/pts\/\d+)/m.exec(first)!;
        settings = given!;
        assert.ok(first.includes("\x1b[?1049h"), "top uses the alternate screen");
        assert.match(first, /node {6}node-1[^]*Sluice .*nftables mode/);
        proxy.report("IPv6", {
          ok: false,
          problems: [{ code: "sync-failed", servicePort: undefined, message: "nft \x1b[2J refused" }],
        });
        const failed = await shows(/syncs have been failing/);
        assert.ok(!failed.includes("\x1b[2J"), "escape sequences in messages are removed");
        await new Deno.Command("stty", { args: ["-F", device!, "cols", "40", "rows", "9"] }).output();
        // A frame may have been drawn before.
        await waitFor("the frame fits", TIMEOUT_MS, async () => {
          const frame = (await shows(TWO_FRAMES)).split("\x1b[H").at(-1)!.split("\x1b[J")[0]!;
          const lines = frame.replace(STYLES, "").split(/\r+\n/);
          return lines.length <= 9 && lines.every(({ length }) => length <= 40);
        });
        await type(key);
        const left = await shows(/end\r?\n/);
        assert.ok(left.includes("\x1b[?25h\x1b[?1049l"));
        assert.match(left, /status 0/);
        assert.ok(left.includes(settings), "the terminal's settings are restored");
      });
      assert.equal(rest, "");
    }));
}

Deno.test("top sorts, filters and scrolls services by keys", () =>
  withSocket((_proxy, socket) => {
    const line = `stty rows 24 cols 100; ${quoted(top(socket))}`;
    const rest = inTerminal(line, async ({ shows, type }) => {
      const first = (await shows(/q quit/)).replace(STYLES, "");
      assert.match(
        first,
        /1–2 of 2 {2}1 service port without endpoints {2}needing attention first\s[^]*SERVICE +FAMILY +ENDPOINTS +STATE/,
      );
      await type("s");
      await shows(/by name/);
      await type("/w");
      await shows(/Enter keeps the filter/);
      await type("eb\r");
      const filtered = (await shows(/1–1 of 1[^]*filter web[^]*default\/web:http[^]*q quit/)).split("\x1b[H").at(-1)!;
      assert.ok(!filtered.includes("default/empty"), filtered);
      await type("\x1b[B\x1b");
      await shows(/1–2 of 2/);
      await type("b");
      await shows(/1–1 of 1[^]*needing attention only/);
      await type("q");
    });
    return rest.then(() => {});
  }));

Deno.test("events prints what happened and follows until it is interrupted", () =>
  withSocket(async (proxy, socket) => {
    const events = (...flags: readonly string[]) => {
      const args = ["run", "-A", "--quiet", MAIN, "events", "--control-socket", socket, ...flags];
      return new Deno.Command(Deno.execPath(), { args, stdout: "piped", stderr: "piped" });
    };
    const { code, stdout } = await events("--once").output();
    assert.equal(code, 0);
    assert.match(
      new TextDecoder().decode(stdout),
      /^\d\d:\d\d:\d\d all services: 2 service ports read from the cluster, in effect after .*\n$/,
    );
    const following = events("-o", "json").spawn();
    const reader = following.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    const reads = async (text: RegExp) => {
      while (!text.test(seen)) {
        const { value } = await inTime(`${text} after ${seen}`, TIMEOUT_MS, reader.read());
        seen += value ?? assert.fail(`it ended: ${seen}`);
      }
    };
    await reads(/all services/);
    proxy.write(manifestsOf([{ ...WEB, endpoints: [] }, EMPTY]));
    await reads(/"effect":"in effect",.*"subject":"default\/web","text":"1 → 0 endpoints"/);
    proxy.report("IPv4", { counts: { drift_repaired: 2 } });
    await reads(/2 changes by other programs repaired/);
    assert.ok(seen.trimEnd().split("\n").every((line) => typeof JSON.parse(line).id === "number"));
    following.kill("SIGINT");
    assert.equal((await inTime("events ends", TIMEOUT_MS, following.status)).code, 0);
    await reader.cancel();
    await following.stderr.cancel();
  }));

Deno.test("without a terminal, top prints once and exits", () =>
  withSocket(async (proxy, socket) => {
    proxy.report("IPv4", {
      problems: [{ code: "rules-refused", servicePort: "default/web:http", message: "refused" }],
    });
    const [command, ...args] = top(socket);
    const { code, stdout } = await new Deno.Command(command!, { args, stderr: "inherit" }).output();
    const text = new TextDecoder().decode(stdout);
    assert.equal(code, 0);
    assert.match(text, /^● IPv4: in sync, except for 1 refused service port\nsource .*\nnode {6}node-1/);
    assert.match(
      text,
      /Services that need attention {2}1 service port refused by the kernel, 1 without endpoints\n {2}SERVICE .* STATE\n {2}default\/web:http +IPv4 +1\/1 {2}Not in.*\n {2}default\/empty:http {2}IPv4 +0\/0 {2}/,
    );
    assert.match(
      text,
      /Problems\n {2}the kernel refuses .* {2}rules-refused\n {4}default\/web:http \(IPv4\) {2}refused\n/,
    );
    assert.ok(!text.includes("\x1b"));
  }));

Deno.test("top reports that no proxy is running", async () => {
  const [command, ...args] = top("/nonexistent/control.sock");
  const { code, stderr } = await new Deno.Command(command!, { args }).output();
  assert.equal(code, 3);
  assert.match(new TextDecoder().decode(stderr), /there is no control socket at .*: no proxy runs on this node/);
});

Deno.test({
  name: "the control socket refuses connections from other users",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withSocket(async (_proxy, socket) => {
      const connect = 'IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$!\\n"';
      const attempt = (uid: number) =>
        new Deno.Command("/usr/bin/perl", { args: ["-MIO::Socket::UNIX", "-e", connect, socket], uid, gid: uid })
          .output();
      assert.equal((await attempt(0)).code, 0);
      const { code, stderr } = await attempt(65534);
      assert.notEqual(code, 0);
      assert.match(new TextDecoder().decode(stderr), /Permission denied/);
    }),
});
