/** The sandbox instead of a real control plane, in this process. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createSandboxTls } from '../../src/cli/sandbox/api.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { GIT_VERSION, VERSION as REPORTED } from '../../src/sandbox/discovery/discovery.ts';
import { perUser, USERS, writeKubeconfigs } from './control-plane-users.ts';
import type { AuditEvent, ControlPlane } from './control-plane.ts';

const VERSION = {
  major: Number(REPORTED.major),
  minor: Number(REPORTED.minor),
  gitVersion: GIT_VERSION,
};

export async function startSandboxPlane(): Promise<ControlPlane> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-sandbox-'));
  const tokens = perUser(() => randomBytes(16).toString('hex'));
  const tls = await createSandboxTls(new Date());
  const events: AuditEvent[] = [];
  const faults: unknown[] = [];
  const sandbox = await startSandbox({
    tls,
    users: new Map(
      Object.entries(perUser((user) => tokens[user])).map(([user, token]) => {
        const { name, groups } = USERS[user as keyof typeof USERS]; // the keys of perUser
        return [token, { username: name, uid: `${user}-uid`, groups }];
      }),
    ),
    audit: (event) => void events.push(event),
    onError: (error) => {
      faults.push(error);
      console.error('fault of the sandbox:', error);
    },
  });
  const server = `https://localhost:${sandbox.port}`;
  const kubeconfigs = writeKubeconfigs(folder, server, tls.ca, tokens);
  return {
    server,
    ca: tls.ca,
    folder,
    contents: 'empty',
    version: VERSION,
    processes: undefined,
    token: (user) => tokens[user],
    kubeconfig: (user) => kubeconfigs[user],
    auditLog: () => events,
    stop: async () => {
      await sandbox.stop();
      rmSync(folder, { recursive: true, force: true });
      if (faults.length > 0) throw new Error(`the sandbox had ${faults.length} faults`, { cause: faults[0] });
    },
  };
}
