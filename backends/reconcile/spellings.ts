/** Texts that a tool prints differently from how they were written, which is no drift. */
export interface Spellings<Text> {
  /** The text as it was written, if what a listing shows is a known other spelling of it; otherwise as it reads. */
  asWritten(id: string, reads: Text): Text;
  /** Notes a known spelling. */
  learn(id: string, written: Text, reads: Text): void;
  /** Notes that an object may only read differently from how it was written, which `confirm` finds out after its repair. */
  question(id: string, written: Text, reads: Text): void;
  /** Ends all questions: the kernel is read again. */
  begin(): void;
  /** Whether an object is in question since the last listing. */
  areInQuestion(): boolean;
  /**
   * Compares the objects in question after their repair: one that reads the same as before was not changed by another program.
   * @returns the number of these
   */
  confirm(read: (id: string) => Text | undefined): number;
  /** Forgets the spelling of an object, which reads as it was written or cannot be a spelling, or all of them. */
  forget(id?: string): void;
}

interface Spelling<Text> {
  readonly written: Text;
  readonly reads: Text;
  /** The repairs in a row that have changed nothing. */
  readonly repairs: number;
}

/**
 * The repairs in a row that must change nothing before a tool counts as one that prints what was written in another spelling. It
 * may report success without writing, and a wrong spelling hides rules that are not in effect.
 */
const SPELLING_REPAIRS = 4;

/** No known spellings yet. */
export function createSpellings<Text>(): Spellings<Text> {
  const seen = new Map<string, Spelling<Text>>();
  const inQuestion = new Map<string, Omit<Spelling<Text>, "repairs">>();
  return {
    asWritten(id, reads) {
      const spelling = seen.get(id);
      const isKnown = spelling !== undefined && spelling.repairs >= SPELLING_REPAIRS && spelling.reads === reads;
      return isKnown ? spelling.written : reads;
    },
    learn: (id, written, reads) => void seen.set(id, { written, reads, repairs: SPELLING_REPAIRS }),
    question: (id, written, reads) => void inQuestion.set(id, { written, reads }),
    begin: () => void inQuestion.clear(),
    areInQuestion: () => inQuestion.size > 0,
    confirm(read) {
      let confirmed = 0;
      for (const [id, { written, reads }] of inQuestion) {
        const before = seen.get(id);
        if (read(id) !== reads) {
          seen.delete(id);
          continue;
        }
        const isSame = before?.reads === reads && before.written === written;
        seen.set(id, { written, reads, repairs: isSame ? before.repairs + 1 : 1 });
        confirmed++;
      }
      inQuestion.clear();
      return confirmed;
    },
    forget(id) {
      if (id === undefined) seen.clear();
      else seen.delete(id);
    },
  };
}
