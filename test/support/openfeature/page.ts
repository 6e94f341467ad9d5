/** The web SDK of OpenFeature, bundled for a page, where the test finds it as `flags`. */
import { OpenFeature, ProviderEvents, type JsonValue } from '@openfeature/web-sdk';
import { StrataProvider } from '../../../client/source/openfeature-web.ts';
import { observe, type Host } from './evaluation.ts';

OpenFeature.setLogger({ error() {}, warn() {}, info() {}, debug() {} });

const page: Host = {
  async provide(domain, options, isAwaited) {
    const provider = new StrataProvider({ ...options, warn() {} });
    if (isAwaited) await OpenFeature.setProviderAndWait(domain, provider).catch(() => {});
    else OpenFeature.setProvider(domain, provider);
  },

  status: async (domain) => OpenFeature.getClient(domain).providerStatus,

  /** The context is that of the page. */
  async evaluate(question) {
    const { domain, type, key, fallback, context } = question;
    const before = OpenFeature.getContext(domain);
    if (JSON.stringify(before) !== JSON.stringify(context))
      await OpenFeature.setContext(domain, context);
    const client = OpenFeature.getClient(domain);
    return observe(question, (hooks) => {
      switch (type) {
        case 'Boolean':
          return client.getBooleanDetails(key, fallback as boolean, { hooks });
        case 'String':
          return client.getStringDetails(key, fallback as string, { hooks });
        case 'Object':
          return client.getObjectDetails(key, fallback as JsonValue, { hooks });
        default:
          return client.getNumberDetails(key, fallback as number, { hooks });
      }
    });
  },

  nextChange: (domain) =>
    new Promise((done) => {
      OpenFeature.getClient(domain).addHandler(ProviderEvents.ConfigurationChanged, (event) =>
        done(event?.flagsChanged ?? []),
      );
    }),
};

Object.assign(globalThis, { flags: page });
