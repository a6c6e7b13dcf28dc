import type { Refusals } from "../reconcile/mod.ts";
import type { Desired } from "./desired.ts";
import type { AddressChange, DummyInterface } from "./dummy_interface.ts";
import { createPending } from "./pending.ts";

/** Brings the dummy interface's addresses to the desired state. */
export interface AddressSync {
  /**
   * Reads the host's addresses, including the node's own; returns how many of the dummy interface's other programs
   * changed.
   */
  read(): Promise<number>;
  /** The addresses that the next `write` adds. */
  toAdd(): ReadonlySet<string>;
  /** Writes the differences in one call. Throws if the kernel accepts none of them. */
  write(): Promise<void>;
}

/** Creates a synchronizer of addresses that has not read them yet. */
export function createAddressSync(desired: Desired, dummy: DummyInterface, refusals: Refusals<string>): AddressSync {
  const { addresses: ledger } = desired;
  let hasDummy = false;
  const pending = createPending("address", ledger, refusals);
  return {
    async read() {
      const found = await dummy.list();
      hasDummy = found.hasDummy;
      const nodeIP = desired.settings()?.nodeIP;
      // A dry run lists no addresses.
      desired.setNodeAddresses(found.node.length > 0 || nodeIP === undefined ? found.node : [nodeIP]);
      return ledger.adopt(new Map([...found.dummy].map((address) => [address, true])));
    },
    toAdd: () => new Set(pending.differences().filter(({ wanted }) => wanted).map(({ id }) => id)),
    async write() {
      if (!hasDummy) await dummy.create();
      hasDummy = true;
      const changes = pending.differences().map(({ id, wanted }): AddressChange => ({
        does: wanted ? "add" : "del",
        address: id,
      }));
      if (changes.length === 0) return;
      const failures = await dummy.apply(changes);
      for (const { address } of changes) {
        const failure = failures.get(address);
        if (failure === undefined) ledger.settle(address);
        else pending.refuse(address, failure);
      }
    },
  };
}
