/**
 * A control plane that is started while the test file before still runs: the API server needs six seconds, in which most tests
 * only wait for something. Vitest's main process starts them, its workers take them over.
 */
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';

import { findAssets } from './control-plane-assets.ts';
import { createSite, serversOf, type Servers, type Site } from './control-plane-site.ts';
import { freePort } from './processes.ts';

export interface Plane {
  readonly site: Site;
  readonly servers: Servers;
}

/** What one process tells the other of a plane that runs. */
interface Handover {
  readonly site: Site;
  readonly pids: { readonly etcd: number; readonly apiServer: number };
}

/** Where to ask for one; the workers inherit it. */
const ADDRESS = 'GATEHOUSE_PLANES_AHEAD';

export async function launchPlane(
  assets: string,
  admissionPlugins: readonly string[] = [],
  apiServerFlags: readonly string[] = [],
): Promise<Plane & Handover> {
  const site = await createSite();
  const servers = serversOf(site, assets, admissionPlugins, apiServerFlags);
  try {
    const etcd = servers.etcd.launch();
    await servers.etcd.whenReady();
    const apiServer = servers.apiServer.launch();
    await servers.apiServer.whenReady();
    return { site, servers, pids: { etcd, apiServer } };
  } catch (error) {
    await stopPlane({ site, servers });
    throw error;
  }
}

export async function stopPlane({ site, servers }: Plane): Promise<void> {
  await servers.apiServer.stop();
  await servers.etcd.stop();
  rmSync(site.folder, { recursive: true, force: true });
}

/** The one that is ready, or soon will be. Undefined when nobody starts them ahead. */
export async function takePlane(assets: string): Promise<Plane | undefined> {
  const address = process.env[ADDRESS];
  if (address === undefined) return undefined;
  const response = await fetch(address, { method: 'POST' });
  if (!response.ok) throw new Error(await response.text());
  const { site, pids } = (await response.json()) as Handover; // from the server below
  const servers = serversOf(site, assets);
  servers.etcd.adopt(pids.etcd);
  servers.apiServer.adopt(pids.apiServer);
  return { site, servers };
}

/** Vitest's global setup. The first build of the programs takes minutes, longer than the set-up of any test file may. */
export async function setup(): Promise<() => Promise<void>> {
  const assets = await findAssets();
  const next = (): Promise<Plane & Handover> => {
    const launched = launchPlane(assets);
    launched.catch(() => undefined); // whoever takes it is told
    return launched;
  };
  let ahead = next();
  const server = createServer((_request, response) => {
    const taken = ahead;
    ahead = taken.then(next, next);
    taken.then(
      ({ site, pids }) => response.end(JSON.stringify({ site, pids } satisfies Handover)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  process.env[ADDRESS] = `http://127.0.0.1:${port}`;
  return async () => {
    server.close();
    server.closeAllConnections();
    await ahead.then(stopPlane, () => undefined);
  };
}
