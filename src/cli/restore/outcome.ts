/** What the process ends with. */
export type ExitCode = 0 | 1 | 2;

/** Where the words go. */
export interface Say {
  /** What was asked for. */
  readonly result: (text: string) => Promise<void>;
  /** What goes on meanwhile, and what went wrong. */
  readonly note: (line: string) => void;
}
