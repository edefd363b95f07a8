/** Metrics of the CA bundles in the objects of others. */
import { Gauge, type Registry } from 'prom-client';

/** How the objects that ask for a CA bundle stand at the moment of a scrape. */
export interface CaBundleTargets {
  readonly targets: () => readonly {
    readonly kind: string;
    readonly state: string;
    readonly count: number;
  }[];
  readonly staleSeconds: () => number;
}

export interface CaBundleMetrics {
  /** Asked at each scrape; undefined: this replica no longer leads, so it has nothing to say of them. */
  readonly caBundles: (targets: CaBundleTargets | undefined) => void;
}

/** Absent on replicas that do not lead: who does not look must not say that all is well. */
export function createCaBundleMetrics(registers: Registry[]): CaBundleMetrics {
  let current: CaBundleTargets | undefined;
  new Gauge({
    name: 'gatehouse_cabundle_targets',
    help: 'Objects that ask for a CA bundle, by kind and by how they stand.',
    labelNames: ['kind', 'state'],
    registers,
    collect() {
      this.reset();
      for (const { kind, state, count } of current?.targets() ?? []) this.set({ kind, state }, count);
    },
  });
  new Gauge({
    name: 'gatehouse_cabundle_stale_seconds',
    help: 'For how long the object that has waited longest has not had its CA bundle; 0 when all have it.',
    registers,
    collect() {
      this.remove();
      if (current !== undefined) this.set(current.staleSeconds());
    },
  });
  return {
    caBundles: (targets) => {
      current = targets;
    },
  };
}
