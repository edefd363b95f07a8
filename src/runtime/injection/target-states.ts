/** The states of the targets of the CA bundle. Injectors report them; metrics read them. */
import type { TargetKindName } from '../../pki/injection/request.ts';

const STATES = ['current', 'stale', 'contended', 'invalid'] as const;
export type TargetState = (typeof STATES)[number];

export type TargetStates = ReturnType<typeof createTargetStates>;

interface Entry {
  readonly kind: TargetKindName;
  readonly state: TargetState;
  readonly staleSince: number | undefined;
}

/** @param monotonic milliseconds, unaffected by changes of the clock */
export function createTargetStates(kinds: readonly TargetKindName[], monotonic: () => number) {
  const entries = new Map<string, Entry>();
  return {
    /** Undefined: the object is not a target, or no longer. */
    report: (kind: TargetKindName, key: string, state: TargetState | undefined): void => {
      const id = `${kind}/${key}`;
      if (state === undefined) {
        entries.delete(id);
        return;
      }
      const staleSince = state === 'current' ? undefined : (entries.get(id)?.staleSince ?? monotonic());
      entries.set(id, { kind, state, staleSince });
    },
    targets: () => {
      const all = [...entries.values()];
      return kinds.flatMap((kind) =>
        STATES.map((state) => ({
          kind,
          state,
          count: all.filter((entry) => entry.kind === kind && entry.state === state).length,
        })),
      );
    },
    /** How long the oldest target that is not current has been so, in seconds; 0 when all are current. */
    staleSeconds: (): number => {
      const since = [...entries.values()].flatMap(({ staleSince }) => staleSince ?? []);
      const oldest = since.reduce((a, b) => Math.min(a, b), Infinity);
      return since.length === 0 ? 0 : Math.max(0, (monotonic() - oldest) / 1000);
    },
  };
}
