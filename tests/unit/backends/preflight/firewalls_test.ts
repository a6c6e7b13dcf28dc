/** Chains of other programs, as nft 1.0.6 lists those of Debian 12's packages. */
import assert from "node:assert/strict";
import { describeMode } from "../../../../backends/mod.ts";
import { findFirewalls } from "../../../../backends/preflight/conflicts.ts";
import { type Runner, ToolMissingError } from "../../../../backends/tools/runner.ts";
import type { ProxyMode } from "../../../../core/model/mod.ts";
import { deliverOutput } from "../../../fakes/runner.ts";

const DOCKER = `table ip filter {
	chain DOCKER {
	}
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
		counter packets 0 bytes 0 jump DOCKER-USER
		oifname "docker0" ct state related,established counter packets 0 bytes 0 accept
		iifname "docker0" oifname != "docker0" counter packets 0 bytes 0 accept
	}
	chain DOCKER-USER {
		counter packets 0 bytes 0 return
	}
}
`;
const UFW = `table ip filter {
	chain ufw-before-forward {
		ct state related,established counter packets 0 bytes 0 accept
		meta l4proto icmp icmp type echo-request counter packets 0 bytes 0 accept
		counter packets 0 bytes 0 jump ufw-user-forward
	}
	chain ufw-user-forward {
	}
	chain ufw-user-limit-accept {
		counter packets 0 bytes 0 accept
	}
	chain INPUT {
		type filter hook input priority filter; policy accept;
		counter packets 0 bytes 0 accept
	}
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
		counter packets 0 bytes 0 jump ufw-before-forward
	}
}
`;
const FIREWALLD = `table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		jump filter_FORWARD_ZONES
		reject with icmpx admin-prohibited
	}
}
`;
/** The ruleset of a workstation: nothing is forwarded. */
const WORKSTATION = `table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}
`;

/** A host with the tables of nft in these listings. */
function hostWith(...tables: readonly string[]): Runner {
  return {
    run(call) {
      const words = call.args.join(" "), name = /list table (.*)$/.exec(words)?.[1];
      if (call.tool !== "nft") return Promise.reject(new ToolMissingError(call.tool));
      const stdout = tables.filter((table) => name === undefined || table.startsWith(`table ${name} {`)).join("");
      return Promise.resolve(deliverOutput({ exitCode: 0, stdout, stderr: "" }, call));
    },
  };
}

const found = async (runner: Runner, mode: ProxyMode = "nftables") =>
  (await findFirewalls(describeMode(mode), runner)).map(({ verdict, message, fix }) =>
    `${verdict} ${/^chain .* \(hook \w+\)/.exec(message)?.[0]}: ${/^run (.*?),/.exec(fix!)?.[1]}`
  );

Deno.test("a chain that drops new connections to services is named with the rule that lets them pass", async () => {
  const iptables = "iptables -t filter -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT";
  for (const rules of [DOCKER, UFW]) {
    const expected = [`yellow chain FORWARD of table ip filter (hook forward): ${iptables}`];
    assert.deepEqual(await found(hostWith(rules)), expected);
    assert.deepEqual(await found(hostWith(rules), "iptables"), expected);
  }
  assert.deepEqual(await found(hostWith(WORKSTATION)), [
    "yellow chain forward of table inet filter (hook forward): " +
    "nft insert rule inet filter forward ct status dnat accept",
  ]);
});

Deno.test("a chain that accepts translated connections, or those to pods, is not in the way", async () => {
  assert.deepEqual(await found(hostWith(FIREWALLD)), []);
  const withRule = (rule: string) =>
    found(hostWith(WORKSTATION.replace("hook forward priority filter; policy drop;", `$&\n\t\t${rule}`)));
  for (
    const rule of ["ct status dnat accept", "ip daddr 10.244.0.0/16 accept", "meta mark & 0x10000 == 0x10000 accept"]
  ) {
    assert.deepEqual(await withRule(rule), [], rule);
  }
  assert.equal((await withRule("ip daddr 10.244.0.0/16 tcp dport 22 accept")).length, 1);
  assert.equal((await withRule("ct state established accept")).length, 1);
});

Deno.test("modes in which no kernel rule translates destinations have nothing in the way", async () => {
  for (const mode of ["ipvs", "userspace"] as const) assert.deepEqual(await found(hostWith(DOCKER), mode), []);
});

Deno.test("a chain of iptables-legacy is named with its command", async () => {
  const SAVED = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
[0:0] -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
`;
  const runner = (saved: string): Runner => ({
    run: (call) =>
      call.tool === "iptables-legacy-save"
        ? Promise.resolve(deliverOutput({ exitCode: 0, stdout: saved, stderr: "" }, call))
        : Promise.reject(new ToolMissingError(call.tool)),
  });
  assert.deepEqual(await found(runner(SAVED)), [
    "yellow chain FORWARD of iptables table filter (hook forward): " +
    "iptables -t filter -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT",
  ]);
  const flannel = '[0:0] -A FLANNEL-FWD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT\nCOMMIT';
  assert.deepEqual(
    await found(runner(SAVED.replace("COMMIT", flannel).replace(":OUTPUT", ":FLANNEL-FWD - [0:0]\n:OUTPUT"))),
    [],
  );
});

Deno.test("chains that cannot be read are named, and those of the rest are still judged", async () => {
  const failing = (fails: (words: string) => string | undefined): Runner => {
    const host = hostWith(DOCKER, WORKSTATION);
    return {
      run(call) {
        const stderr = fails(call.args.join(" "));
        return stderr === undefined || call.tool !== "nft"
          ? host.run(call)
          : Promise.resolve({ exitCode: 1, stdout: "", stderr });
      },
    };
  };
  const messages = async (runner: Runner) =>
    (await findFirewalls(describeMode("nftables"), runner)).map(({ code, message }) => `${code}: ${message}`);
  const denied = "Operation not permitted (you must be root)";
  assert.deepEqual(await messages(failing(() => denied)), [
    `firewalls-unread: nft list chains failed with exit status 1: ${denied}`,
  ]);
  const [chain, ...unread] = await messages(failing((words) => words.includes("list table inet") ? denied : undefined));
  assert.match(chain!, /chain FORWARD of table ip filter/);
  assert.deepEqual(unread, [
    `firewalls-unread: nft list table inet filter failed with exit status 1: ${denied}`,
  ]);
  const gone = "Error: No such file or directory\nlist table inet filter";
  assert.equal((await messages(failing((words) => words.includes("list table inet") ? gone : undefined))).length, 1);
  assert.deepEqual(await messages({ run: () => Promise.reject(new Error("nft: cannot be run")) }), [
    "firewalls-unread: nft: cannot be run",
  ]);
  const many = Array.from({ length: 65 }, (_, i) => WORKSTATION.replace("inet filter", `inet f${i}`));
  assert.match((await messages(hostWith(...many))).at(-1)!, /^firewalls-unread: of 65 tables, 64 were read$/);
});

Deno.test("a kernel without nf_tables has no chains of it to read, and iptables-legacy is read for itself", async () => {
  const messages = async (failing: string, stderr: string) => {
    const run: Runner["run"] = (call) =>
      call.tool === failing ? Promise.resolve({ exitCode: 1, stdout: "", stderr }) : hostWith(FIREWALLD).run(call);
    return (await findFirewalls(describeMode("iptables"), { run })).map(({ message }) => message);
  };
  assert.deepEqual(await messages("nft", "netlink: Error: cache initialization failed: Protocol not supported\n"), []);
  assert.deepEqual(
    await messages("iptables-legacy-save", "Cannot open /proc/net/ip_tables_names: Permission denied\n"),
    [
      "iptables-legacy-save failed with exit status 1: Cannot open /proc/net/ip_tables_names: Permission denied",
    ],
  );
});
