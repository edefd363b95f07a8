/** The exchanges between a case and the API, in order, which the tests compare. */
export type Exchange = RequestExchange | WatchExchange | Note;

export interface RequestExchange {
  /** Method and path. */
  readonly request: string;
  /** The user, if not admin. */
  readonly as?: string;
  /** The request body; omitted if long, because the case contains it. */
  readonly body?: unknown;
  readonly status: number;
  /** Only relevant headers: Warning, Retry-After, and Content-Type if it is not JSON. */
  readonly headers?: Readonly<Record<string, readonly string[]>>;
  readonly answer: unknown;
}

export interface WatchExchange {
  readonly watch: string;
  readonly as?: string;
  readonly status: number;
  readonly events: readonly unknown[];
}

/** An observation from elsewhere, such as the reviews that a webhook received. */
export interface Note {
  readonly note: string;
  readonly seen: unknown;
}

export type Transcript = readonly Exchange[];
