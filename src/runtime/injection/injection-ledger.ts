/** How the targets of the CA bundle stand: kept by the injectors, read by the metrics. */
import type { TargetKindName } from '../../pki/injection/request.ts';

export type TargetState = 'current' | 'stale' | 'contended' | 'invalid';

export interface InjectionLedger {
  /** Undefined: the object is no target, or no longer. */
  readonly report: (kind: TargetKindName, key: string, state: TargetState | undefined) => void;
  readonly targets: () => readonly {
    readonly kind: TargetKindName;
    readonly state: TargetState;
    readonly count: number;
  }[];
  /** For how long the target that has waited longest has not been current, in seconds; 0 when all are. */
  readonly staleSeconds: () => number;
}

interface Entry {
  readonly kind: TargetKindName;
  readonly state: TargetState;
  readonly staleSince: number | undefined;
}

const STATES: readonly TargetState[] = ['current', 'stale', 'contended', 'invalid'];

/** @param monotonic milliseconds that no change of the clock moves */
export function createInjectionLedger(
  kinds: readonly TargetKindName[],
  monotonic: () => number,
): InjectionLedger {
  const entries = new Map<string, Entry>();
  return {
    report: (kind, key, state) => {
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
    staleSeconds: () => {
      const since = [...entries.values()].flatMap(({ staleSince }) => staleSince ?? []);
      return since.length === 0 ? 0 : Math.max(0, (monotonic() - Math.min(...since)) / 1000);
    },
  };
}
