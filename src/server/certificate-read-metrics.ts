import { Counter, type Registry } from 'prom-client';

export interface CertificateReadMetrics {
  /** A serving certificate was read, to be presented. */
  readonly certificateRead: () => void;
  /** … and could not be: what was presented before still is. */
  readonly certificateReadFailed: () => void;
}

/** @see https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/certwatcher/metrics/metrics.go */
export function createCertificateReadMetrics(registers: Registry[]): CertificateReadMetrics {
  const read = new Counter({
    name: 'certwatcher_read_certificate_total',
    help: 'Times that the serving certificate of the webhooks was read.',
    registers,
  });
  const failed = new Counter({
    name: 'certwatcher_read_certificate_errors_total',
    help: 'Times that the serving certificate of the webhooks was read and could not be presented.',
    registers,
  });
  return {
    certificateRead: () => {
      read.inc();
    },
    certificateReadFailed: () => {
      failed.inc();
    },
  };
}
