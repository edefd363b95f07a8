/** Servers and their client, each in its own process and on its own core. */
import { caBundle } from '../../src/pki/authority/authority.ts';
import { firstAuthority, SERVER_NAME, serverOf } from '../../test/support/pki/fixtures.ts';
import type { Load, Span } from './admission-load.ts';
import type { Size } from './admission-reviews.ts';
import type { AdmissionServer, Contents } from './admission-server.ts';
import { CONTAINER_HEAP, startChild } from './child.ts';

const SERVER_CORE = 0;
const CLIENT_CORE = 1;

export interface Scenario {
  readonly webhook: 'validate' | 'mutate';
  readonly connections: number;
  readonly size: Size;
}

export type Stage = Awaited<ReturnType<typeof startStage>>;
export type Subject = Awaited<ReturnType<Stage['start']>>;
export type Turn = Awaited<ReturnType<Subject['turn']>>;

/** @param datacenters that the reviews name; each server must know at least this number */
export async function startStage(datacenters: number) {
  const now = new Date();
  const authority = await firstAuthority(now);
  const { chain, keyPair } = await serverOf(authority, now);
  const client = startChild<Load>('admission-load.ts');
  await client.call('prepare', CLIENT_CORE, datacenters);
  const ca = caBundle(authority, now);
  return {
    start: async (server: 'floor' | 'gatehouse', contents: Contents) => {
      const child = startChild<AdmissionServer>('admission-server.ts', {
        stdout: 'ignore',
        execArgv: CONTAINER_HEAP,
      });
      const certificate = { chain, key: keyPair.privateKey };
      const { port, entry, pinned } = await child.call('start', server, SERVER_CORE, certificate, contents);
      return {
        pinned,
        stop: child.stop,
        turn: async ({ webhook, connections, size }: Scenario, span: Span) => {
          const before = await child.call('usage');
          const ran = await client.call('run', {
            port,
            ca,
            serverName: SERVER_NAME,
            size,
            connections,
            ...span,
            path: `/${webhook}/${entry}`,
            expected: webhook === 'mutate' ? '"patchType":"JSONPatch"' : '"allowed":true',
          });
          const after = await child.call('usage');
          return {
            /** Per second. */
            requests: (ran.requests / ran.milliseconds) * 1_000,
            /** In milliseconds. */
            p50: ran.p50,
            p99: ran.p99,
            /** CPU time of the server per request, in milliseconds. */
            cpu: (after.cpu - before.cpu) / ran.requests,
            rss: after.rss,
            /** The share of its core that the client used. */
            clientShare: ran.cpu / ran.milliseconds,
          };
        },
      };
    },
    stop: client.stop,
  };
}

/**
 * The requests of a warm-up, in which V8 compiles the hot code: production servers run for weeks. V8 counts calls, so a
 * span of time would compare servers in different states on a slow machine. One connection runs the same code as many.
 */
const WARM_UP = { one: 5_000, '3 KB': 50_000, '100 KB': 5_000 };
const TURN_MS = 500;
const ROUNDS = 4;

export async function playRounds(
  subjects: readonly Subject[],
  scenario: Scenario,
): Promise<readonly (readonly Turn[])[]> {
  const requests = WARM_UP[scenario.connections === 1 ? 'one' : scenario.size];
  for (const subject of subjects) await subject.turn(scenario, { requests });
  const rounds: Turn[][] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const turns: Turn[] = [];
    for (const subject of subjects) turns.push(await subject.turn(scenario, { milliseconds: TURN_MS }));
    rounds.push(turns);
  }
  return rounds;
}
