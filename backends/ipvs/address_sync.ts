import type { Desired } from "./desired.ts";
import type { AddressChange, DummyInterface } from "./dummy_interface.ts";
import type { Refusals } from "./refusals.ts";

/** Keeps the dummy interface's addresses to what is desired. */
export interface AddressSync {
  /** Reads the host's addresses, the node's own too; returns how many are not as they were believed to be. */
  read(): Promise<number>;
  /** The addresses that the next `write` adds. */
  toAdd(): ReadonlySet<string>;
  /** Writes what differs, in one call. Throws where the kernel takes none of it. */
  write(): Promise<void>;
}

/** Addresses that have not been read yet. */
export function createAddressSync(desired: Desired, dummy: DummyInterface, refusals: Refusals): AddressSync {
  const { addresses: ledger } = desired;
  let hasDummy = false;
  const toWrite = () => ledger.differences().filter(({ id, wanted }) => !refusals.has(id, wanted));
  return {
    async read() {
      const found = await dummy.list();
      hasDummy = found.hasDummy;
      const nodeIP = desired.settings()?.nodeIP;
      // A host that lists none is one that is only thought of: what would be written is asked for without its kernel.
      desired.setNodeAddresses(found.node.length > 0 || nodeIP === undefined ? found.node : [nodeIP]);
      return ledger.adopt(new Map([...found.dummy].map((address) => [address, true])));
    },
    toAdd: () => new Set(toWrite().filter(({ wanted }) => wanted).map(({ id }) => id)),
    async write() {
      if (!hasDummy) await dummy.create();
      hasDummy = true;
      const changes = toWrite().map(({ id, wanted }): AddressChange => ({ does: wanted ? "add" : "del", address: id }));
      if (changes.length === 0) return;
      const failures = await dummy.apply(changes);
      for (const { address } of changes) {
        const failure = failures.get(address);
        if (failure === undefined) ledger.settle(address);
        else {
          const servicePort = ledger.owner(address)?.replace(/\|\w+$/, "");
          refusals.add(address, ledger.wanted(address), `address ${address}`, servicePort, failure);
        }
      }
    },
  };
}
