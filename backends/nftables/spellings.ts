import { contributionOf } from "./contribution.ts";
import type { Listing } from "./listing.ts";
import { chainText, type Shadow } from "./shadow.ts";
import { declarationText, type Dialect } from "./table.ts";
import { allSets } from "./traffic.ts";

/** Texts that this host's nft prints differently from how they were written, which is no drift. */
export interface Spellings {
  /** The text of a set or chain as it was written, by its text as nft prints it. */
  written(name: string, read: string): string;
  /** Notes a listing, with the shadow before it. */
  note(listing: Listing | undefined, before: Shadow | undefined): void;
  /** Whether the last listing showed chains that may only be spelled differently. */
  areInQuestion(): boolean;
  /** Notes a listing after the repair of these chains. Returns how many of them are only spelled differently. */
  learn(listing: Listing | undefined): number;
}

interface Spelling {
  readonly read: string;
  readonly written: string;
}

/** No known spellings yet. */
export function createSpellings(dialect: Dialect): Spellings {
  const known = new Map<string, Spelling>();
  let inQuestion = new Map<string, Spelling>();

  const written = (name: string, read: string) => {
    const spelling = known.get(name);
    return spelling?.read === read ? spelling.written : read;
  };

  /** A set cannot be changed in place: if it reads differently from how it was created, that is a spelling. */
  function learnDeclarations(listing: Listing): void {
    for (const [name, declaration] of allSets({ countTraffic: true, countsAttempts: true }, dialect)) {
      const read = listing.declarations.get(name), text = declarationText(declaration);
      if (read !== undefined && read !== text) known.set(name, { read, written: text });
    }
  }

  return {
    written,
    note(listing, before) {
      inQuestion = new Map();
      if (!listing || !before) return;
      if (before.sets === "complete") learnDeclarations(listing);
      for (const [name, text] of chainTexts(before, dialect)) {
        const read = listing.chains.get(name);
        if (read === undefined || written(name, read) === text || countLines(read) !== countLines(text)) continue;
        inQuestion.set(name, { read, written: text });
      }
    },
    areInQuestion: () => inQuestion.size > 0,
    learn(listing) {
      let learned = 0;
      for (const [name, spelling] of inQuestion) {
        // A chain that reads the same before and after its repair was not changed by another program.
        if (listing?.chains.get(name) !== spelling.read) continue;
        known.set(name, spelling);
        learned++;
      }
      inQuestion = new Map();
      return learned;
    },
  };
}

/** The texts of all chains of a shadow. */
function* chainTexts(shadow: Shadow, dialect: Dialect): Generator<readonly [string, string]> {
  yield* shadow.chains;
  for (const { port, settings } of shadow.applied.values()) {
    if (port.affinitySeconds === 0) continue;
    for (const { name, rules } of contributionOf(port, settings, dialect).ownChains) {
      yield [name, chainText(undefined, rules)];
    }
  }
}

function countLines(text: string): number {
  return text.split("\n").length;
}
