/** The API server under test: a real one, or the sandbox if GATEHOUSE_TEST_API selects it. */
import { createHash } from 'node:crypto';

import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { type Api, createApi, type Exchange } from './api.ts';
import type { ConformanceCase } from './case.ts';
import { installFixtures } from './fixtures.ts';
import { normalise } from './normalise.ts';
import { createTransport } from './transport.ts';
import { startHooks } from './hook-server.ts';

export interface Subject {
  readonly version: ControlPlane['version'];
  /** Runs a case in its own namespace and returns the normalised transcript. */
  readonly observe: (conformanceCase: ConformanceCase) => Promise<unknown>;
  readonly stop: () => Promise<void>;
}

/** It creates a ConfigMap in each namespace, at any time: the cases list and watch ConfigMaps. */
const PUBLISHER = ['root-ca-cert-publisher'];

export async function startSubject(): Promise<Subject> {
  const plane = await startControlPlane({ own: true, withoutControllers: PUBLISHER });
  const hooks = await startHooks();
  const transport = createTransport(plane.server, plane.ca);
  const stop = async () => {
    transport.close();
    await hooks.stop();
    await plane.stop();
  };
  const open = (id: string, transcript: Exchange[] = []): Api =>
    createApi({ id, plane, transport, transcript, hooks: hooks.forCase(id) });

  try {
    await installFixtures(open('default'), hooks.port);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    version: plane.version,
    observe: async (conformanceCase) => {
      const id = wordFor(conformanceCase.name);
      const transcript: Exchange[] = [];
      const api = open(id, transcript);
      await api.given.create('/api/v1/namespaces', { metadata: { name: id, labels: { case: id } } });
      try {
        await conformanceCase.run(api);
      } catch (error) {
        throw new Error(`after ${JSON.stringify(transcript.slice(-2), undefined, 1)}`, { cause: error });
      } finally {
        await api.hooks.clear(api.given);
      }
      return normalise(transcript, { id, keepManagedFields: conformanceCase.keepManagedFields ?? false });
    },
    stop,
  };
}

/** The same word in every run, for any order of the cases. */
function wordFor(name: string): string {
  return `c${createHash('sha256').update(name).digest('hex').slice(0, 7)}`;
}
