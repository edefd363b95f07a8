/** `gatehouse webhook`, `controllers` and `serve`, with the status page and development sessions. */
import type { Config } from '../config/config.ts';
import {
  controllers as runControllers,
  serve as runBoth,
  webhook as runWebhook,
  type ServeOptions,
} from '../runtime/serve.ts';
import { runDevSession } from './dev/dev-session.ts';
import { createStatusPage } from './inspect/page/status-page.ts';

type Options = Omit<ServeOptions, 'statusPage' | 'devSession'>;

/** Each runs until a signal stops the process, and rejects when it cannot start or continue. */
export const processes = {
  webhook: (config: Config, options: Options = {}): Promise<void> => runWebhook(config, options),
  controllers: (config: Config, options: Options = {}): Promise<void> =>
    runControllers(config, { ...options, statusPage: createStatusPage }),
  serve: (config: Config, options: Options = {}): Promise<void> =>
    runBoth(config, { ...options, statusPage: createStatusPage, devSession: runDevSession }),
};
