/** `gatehouse serve`: a replica with the status page and development sessions. */
import type { Config } from '../config/config.ts';
import { serve as serveReplica, type ServeOptions } from '../runtime/serve.ts';
import { runDevSession } from './dev/dev-session.ts';
import { createStatusPage } from './inspect/page/status-page.ts';

/** Runs until a signal stops the process. Rejects when the replica cannot start or continue. */
export const serve = (
  config: Config,
  options: Omit<ServeOptions, 'statusPage' | 'devSession'> = {},
): Promise<void> =>
  serveReplica(config, { ...options, statusPage: createStatusPage, devSession: runDevSession });
