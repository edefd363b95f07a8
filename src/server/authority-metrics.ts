/** Metrics of the authority. Times are seconds since 1970, so that `x - time()` is what is left. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface AuthorityState {
  readonly phase: string;
  /** Why the stored authority cannot be used. */
  readonly broken: string | undefined;
  readonly generations: readonly { readonly id: string; readonly state: string; readonly notAfter: Date }[];
}

export interface AuthorityMetrics {
  readonly authority: (state: AuthorityState) => void;
  /** This replica no longer leads, so it has nothing to say of the authority. */
  readonly authorityUnknown: () => void;
  /** A copy of the authority that was older or broken has been replaced by the last good one. */
  readonly authorityRestored: () => void;
  /** `skewMs` is asked at each scrape: how far our clock is ahead of the API server's. */
  readonly clockSkew: (skewMs: () => number | undefined) => void;
}

export function createAuthorityMetrics(registers: Registry[]): AuthorityMetrics {
  const gauge = (name: string, help: string, labelNames: readonly string[]) =>
    new Gauge({ name, help, labelNames, registers });
  const notAfter = gauge('gatehouse_serving_ca_not_after_seconds', 'When the root of a generation ends.', [
    'generation',
    'state',
  ]);
  const phase = gauge('gatehouse_rotation_phase', '1 for the phase that the authority is in.', ['phase']);
  const broken = gauge('gatehouse_authority_broken', '1 while the stored authority cannot be used.', [
    'reason',
  ]);
  const restored = new Counter({
    name: 'gatehouse_authority_restored_total',
    help: 'How often the last good copy of the authority was written back.',
    registers,
  });
  let current: { readonly phase: string; readonly since: number } | undefined;
  let skewMs: () => number | undefined = () => undefined;
  new Gauge({
    name: 'gatehouse_rotation_phase_seconds',
    help: 'How long the authority has been in its phase, as far as this process has seen.',
    labelNames: ['phase'],
    registers,
    collect() {
      this.reset();
      if (current !== undefined)
        this.set({ phase: current.phase }, (performance.now() - current.since) / 1_000);
    },
  });
  new Gauge({
    name: 'gatehouse_clock_skew_seconds',
    help: 'By how much the clock of this replica is ahead of that of the API server.',
    registers,
    collect() {
      const skew = skewMs();
      if (skew !== undefined) this.set(skew / 1_000);
    },
  });

  const clear = () => {
    for (const one of [notAfter, phase, broken]) one.reset();
  };
  return {
    authority: (state) => {
      clear();
      for (const generation of state.generations)
        notAfter.set(
          { generation: generation.id, state: generation.state },
          generation.notAfter.getTime() / 1_000,
        );
      phase.set({ phase: state.phase }, 1);
      if (state.broken !== undefined) broken.set({ reason: state.broken }, 1);
      if (current?.phase !== state.phase) current = { phase: state.phase, since: performance.now() };
    },
    authorityUnknown: () => {
      clear();
      current = undefined;
    },
    authorityRestored: () => {
      restored.inc();
    },
    clockSkew: (ask) => {
      skewMs = ask;
    },
  };
}
