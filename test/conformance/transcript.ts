/** What passed between a case and the API, in order: this is what is compared. */
export type Exchange = RequestExchange | WatchExchange | Note;

export interface RequestExchange {
  /** Method and path. */
  readonly request: string;
  /** Who asks, if not admin. */
  readonly as?: string;
  /** What was sent; left out when it is long, since the case has it. */
  readonly body?: unknown;
  readonly status: number;
  /** Only those that say something: Warning, Retry-After, and Content-Type if it is not JSON. */
  readonly headers?: Readonly<Record<string, readonly string[]>>;
  readonly answer: unknown;
}

export interface WatchExchange {
  readonly watch: string;
  readonly as?: string;
  readonly status: number;
  readonly events: readonly unknown[];
}

/** Something that a case saw elsewhere, for instance the reviews that its webhook was sent. */
export interface Note {
  readonly note: string;
  readonly seen: unknown;
}

export type Transcript = readonly Exchange[];
