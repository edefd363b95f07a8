/** Every fault that the harness can inject into a scene, by name. A plan draws from them. */
import type { Asked } from '../api-proxy.ts';
import type { Seeded } from '../seeded.ts';
import { chanceFor, type Begin } from './plan.ts';
import type { Fault } from './request-faults.ts';
import type { FaultScene } from './scene.ts';
import type { Side, TcpFaults } from './tcp.ts';
import type { WatchFault } from './watch-faults.ts';

const SIDES: readonly Side[] = ['client', 'target'];

/** A connection fault that ends as soon as it has struck. */
const once =
  (strike: (chance: Seeded) => unknown): Begin =>
  (chance) => {
    strike(chance);
    return () => undefined;
  };

function connectionFaults(name: string, tcp: TcpFaults): Readonly<Record<string, Begin>> {
  return {
    [`${name} cut`]: () => {
      tcp.cut();
      return () => {
        tcp.repair('cut');
      };
    },
    [`${name} frozen`]: (chance) => {
      for (const side of chance.pick([SIDES, ...SIDES.map((one) => [one])])) tcp.freeze(side);
      return () => {
        tcp.repair('freeze');
      };
    },
    [`${name} slow`]: (chance) => {
      tcp.delay({ min: 0, max: chance.below(400) });
      return () => {
        tcp.repair('delay');
      };
    },
    [`${name} reset`]: once((chance) => tcp.reset(chance.next())),
    [`${name} half-closed`]: once((chance) => tcp.halfClose(chance.pick(SIDES))),
  };
}

const WATCH_FAULTS: readonly WatchFault[] = [
  { kind: 'reorder', events: 3 },
  { kind: 'drop-bookmarks' },
  { kind: 'duplicate' },
  { kind: 'go-back' },
  { kind: 'cut-in-line' },
  { kind: 'gone' },
  { kind: 'error-event' },
  { kind: 'break' },
  { kind: 'freeze' },
];

/** The fault for a request that was chosen to meet one. */
function drawFault(chance: Seeded, write: boolean): Fault {
  const applied = write && chance.chance(0.5);
  const retryAfter = chance.chance(0.5) ? { retryAfterSeconds: 1 } : {};
  const code = chance.pick(write ? [409, 429, 500, 503, 504] : [429, 500, 503]);
  return chance.pick<Fault>([
    { kind: 'answer', code, applied, ...retryAfter },
    { kind: 'reset', applied },
    { kind: 'delay', ms: chance.below(1_500) },
  ]);
}

/** @param seed decides the fault of the nth request of its kind, whenever that request arrives */
export function allFaults(
  { api, apiTcp, webhookTcp }: FaultScene,
  seed: number,
): Readonly<Record<string, Begin>> {
  const chanceOf = chanceFor(seed);
  /** Percentage of requests that meet a fault. */
  const shares = { writes: 0, reads: 0 };
  api.disturb(({ method, path, write }: Asked) => {
    const chance = chanceOf(write === undefined ? path : `${method} ${write.target}`);
    const share = write === undefined ? shares.reads : shares.writes;
    return chance.below(100) < share ? drawFault(chance, write !== undefined) : undefined;
  });
  const requests =
    (kind: keyof typeof shares): Begin =>
    (chance) => {
      shares[kind] = 20 + chance.below(60);
      return () => {
        shares[kind] = 0;
      };
    };
  const watchFaults = WATCH_FAULTS.map((fault): [string, Begin] => [
    `watches: ${fault.kind}`,
    (chance) => {
      const harmed = chanceFor(chance.below(2 ** 31));
      const chosen = new Map<string, boolean>();
      const matches = (path: string) => {
        const resource = path.split('?')[0] ?? path;
        const hit = chosen.get(resource) ?? harmed(resource).chance(0.7);
        chosen.set(resource, hit);
        return hit;
      };
      return api.watches.harm(fault, matches).end;
    },
  ]);
  return {
    ...connectionFaults('api', apiTcp),
    ...connectionFaults('webhook', webhookTcp),
    ...Object.fromEntries(watchFaults),
    'api writes harmed': requests('writes'),
    'api reads harmed': requests('reads'),
  };
}
