/*
 * Fails to compile if a signature, a number or a structure in the interface changes. Every such
 * change must raise UC_ABI_VERSION. exports.txt lists the exported functions.
 */
#include <undercroft.h>

#ifdef __cplusplus
#define CHECK(condition) static_assert(condition, #condition)
#else
#define CHECK(condition) _Static_assert(condition, #condition)
#endif

/* Declares a function again, which compiles only if both declarations match. */
#define SAME(result, name, ...) result name(__VA_ARGS__)

#ifdef __cplusplus
extern "C" {
#endif
SAME(uint32_t, uc_abi_version, void);
SAME(const char *, uc_version, void);
SAME(const char *, uc_error_message, void);
SAME(const char *, uc_status_name, int);
SAME(int, uc_set_interrupt, int (*)(void *), void *);
SAME(int, uc_open, const char *, const uc_options *, uc_store **);
SAME(const char *, uc_store_warning, const uc_store *);
SAME(int, uc_close, uc_store *);
SAME(int, uc_get, uc_store *, const void *, size_t, void *, size_t, size_t *);
SAME(int, uc_set, uc_store *, const void *, size_t, const void *, size_t);
SAME(int, uc_set_with, uc_store *, const void *, size_t, const void *, size_t, const uc_set_options *, uc_reply *);
SAME(int, uc_incr, uc_store *, const void *, size_t, int64_t, int64_t *);
SAME(int, uc_mget, uc_store *, size_t, const uc_bytes *, uc_reply *);
SAME(int, uc_mset, uc_store *, size_t, const uc_bytes *, const uc_bytes *);
SAME(int, uc_del, uc_store *, size_t, const uc_bytes *, uint64_t *);
SAME(int, uc_exists, uc_store *, size_t, const uc_bytes *, uint64_t *);
SAME(int, uc_expire, uc_store *, const void *, size_t, int64_t);
SAME(int, uc_ttl, uc_store *, const void *, size_t, int64_t *);
SAME(int, uc_feed_create, uc_store *, const void *, size_t, size_t, const char *, const char *);
SAME(int, uc_feed_add, uc_store *, const void *, size_t, int64_t, size_t, const void *, size_t, const uint32_t *,
     size_t,
     uint64_t *);
SAME(int, uc_feed_range, uc_store *, const void *, size_t, int64_t, size_t, const uc_feed_query *, void *, size_t,
     uint32_t *,
     size_t, size_t *);
SAME(int, uc_feed_between, uc_store *, const void *, size_t, const void *, size_t, const void *, size_t, uint64_t, size_t,
     const uc_feed_query *, void *, size_t, uint32_t *, size_t, size_t *);
SAME(int, uc_feed_count, uc_store *, const void *, size_t, const uc_feed_query *, uint64_t *);
SAME(int, uc_feed_position, uc_store *, const void *, size_t, const void *, size_t, uint64_t, uint64_t *);
SAME(int, uc_feed_del, uc_store *, const void *, size_t, size_t, const void *, size_t, uint64_t *);
SAME(int, uc_feed_del_where, uc_store *, const void *, size_t, const uc_feed_query *, uint64_t *);
SAME(int, uc_feed_hide, uc_store *, const void *, size_t, size_t, const void *, size_t, uint64_t *);
SAME(int, uc_feed_show, uc_store *, const void *, size_t, size_t, const void *, size_t, uint64_t *);
SAME(int, uc_feed_move, uc_store *, const void *, size_t, const void *, size_t, int64_t);
SAME(int, uc_feed_set_attributes, uc_store *, const void *, size_t, const void *, size_t, const int64_t *, size_t,
     uint64_t *);
SAME(int, uc_feed_pop, uc_store *, const void *, size_t, int, size_t, void *, size_t, size_t *);
SAME(int, uc_feed_info, uc_store *, const void *, size_t, uc_feed_info_reply *);
SAME(int, uc_feed_compact, uc_store *, const void *, size_t);
SAME(int, uc_session_open, uc_store *, uc_session **);
SAME(int, uc_session_close, uc_session *);
SAME(int, uc_command, uc_session *, size_t, const uc_bytes *, uc_reply *);
SAME(int, uc_pipeline, uc_session *, size_t, const uc_words *, uc_reply *);
SAME(int, uc_taken, uc_session *, int);
SAME(int, uc_transaction, uc_session *, size_t, const uc_words *, uc_reply *);
SAME(int, uc_reply_new, uc_reply **);
SAME(int, uc_reply_free, uc_reply *);
SAME(const uc_value *, uc_reply_value, const uc_reply *);
SAME(int, uc_value_type, const uc_value *);
SAME(const char *, uc_value_string, const uc_value *, size_t *);
SAME(int64_t, uc_value_integer, const uc_value *);
SAME(double, uc_value_double, const uc_value *);
SAME(size_t, uc_value_length, const uc_value *);
SAME(const uc_value *, uc_value_item, const uc_value *, size_t);
SAME(const uc_value *, uc_value_key, const uc_value *, size_t);
SAME(int, uc_publish, uc_store *, const void *, size_t, const void *, size_t, uint64_t *);
SAME(int, uc_subscription_open, uc_store *, uc_subscription **);
SAME(int, uc_subscription_close, uc_subscription *);
SAME(int, uc_subscribe, uc_subscription *, int, size_t, const uc_bytes *);
SAME(int, uc_unsubscribe, uc_subscription *, int, size_t, const uc_bytes *);
SAME(int, uc_subscription_next, uc_subscription *, int64_t, uc_reply *);
SAME(int, uc_subscription_descriptor, uc_subscription *, int *);
SAME(int, uc_subscription_lost, uc_subscription *, uint64_t *);
SAME(int, uc_object_put, uc_store *, const void *, size_t, int64_t, char *);
SAME(int, uc_object_put_array, uc_store *, const char *, size_t, const uint64_t *, const void *, size_t, int64_t, char *);
SAME(int, uc_object_get, uc_store *, const void *, size_t, uc_object **);
SAME(int, uc_object_take, uc_store *, const void *, size_t, uc_object **);
SAME(int, uc_object_del, uc_store *, const void *, size_t);
SAME(int, uc_object_close, uc_object *);
SAME(const void *, uc_object_data, const uc_object *, size_t *);
SAME(int, uc_object_kind, const uc_object *);
SAME(int, uc_object_array, const uc_object *, const char **, size_t *, const uint64_t **);
SAME(int, uc_channel_open, uc_store *, const void *, size_t, uint64_t, int64_t, uc_channel **);
SAME(int, uc_channel_close, uc_channel *);
SAME(int, uc_channel_send, uc_channel *, const void *, size_t, int64_t);
SAME(int, uc_channel_send_text, uc_channel *, const void *, size_t, int64_t);
SAME(int, uc_channel_send_array, uc_channel *, const char *, size_t, const uint64_t *, const void *, size_t, int64_t);
SAME(int, uc_channel_receive, uc_channel *, int64_t, uc_object **);
SAME(int, uc_channel_hold, uc_channel *, int64_t, uc_object **);
SAME(int, uc_channel_ack, uc_object *);
SAME(int, uc_channel_release, uc_object *);
SAME(int, uc_channel_length, uc_channel *, uint64_t *);
SAME(int, uc_channel_close_for_all, uc_channel *);
SAME(int, uc_channel_is_closed, uc_channel *, int *);
SAME(int, uc_channel_del, uc_channel *);
#ifdef __cplusplus
}
#endif

CHECK(UC_ABI_VERSION == 7);
CHECK(UC_OBJECT_ID == 80);
CHECK(UC_OK == 0 && UC_NONE == 1 && UC_TOO_SMALL == 2 && UC_CLOSED == 3);
CHECK(UC_ERROR == -1 && UC_MISUSE == -2 && UC_WRONG_TYPE == -3 && UC_FULL == -4 && UC_BUSY == -5);
CHECK(UC_INTERRUPTED == -6 && UC_READ_ONLY == -7 && UC_REMOVED == -8 && UC_CANNOT_OPEN == -9 && UC_INTERNAL == -10);
CHECK(UC_TYPE_NIL == 0 && UC_TYPE_STATUS == 1 && UC_TYPE_STRING == 2 && UC_TYPE_INTEGER == 3);
CHECK(UC_TYPE_DOUBLE == 4 && UC_TYPE_BOOLEAN == 5 && UC_TYPE_ERROR == 6);
CHECK(UC_TYPE_ARRAY == 7 && UC_TYPE_MAP == 8 && UC_TYPE_SET == 9);
CHECK(UC_CHANNEL == 0 && UC_PATTERN == 1 && UC_SHARD == 2);
CHECK(UC_SET_NX == 1 && UC_SET_XX == 2 && UC_SET_KEEPTTL == 4 && UC_UNLIMITED == 0xffffffffffffffff);

CHECK(UC_FEED_VISIBLE == 0 && UC_FEED_HIDDEN == 1 && UC_FEED_ALL == 2 && UC_FEED_REVERSE == 4 && UC_FEED_KEEP == -1);
CHECK(UC_FEED_BY_VALUE == INT64_MIN);
CHECK(UC_FEED_LEFT == 0 && UC_FEED_RIGHT == 1);

/*
 * Structures must have the layouts that options.rs, feed.rs, feed_words.rs and border.rs in
 * clients/c/src declare.
 */
#define FIELD(type, field, place, size) \
    CHECK(offsetof(type, field) == (place) && sizeof(((type *)0)->field) == (size))
CHECK(sizeof(uc_options) == 72 && sizeof(uc_set_options) == 32 && sizeof(uc_bytes) == 16 && sizeof(uc_words) == 16);
FIELD(uc_options, size, 0, 8);
FIELD(uc_options, capacity, 8, 8);
FIELD(uc_options, max_memory, 16, 8);
FIELD(uc_options, policy, 24, 8);
FIELD(uc_options, timeout_ms, 32, 8);
FIELD(uc_options, database, 40, 8);
FIELD(uc_options, strict, 48, 8);
FIELD(uc_options, durability, 56, 8);
FIELD(uc_options, journal, 64, 8);
FIELD(uc_set_options, size, 0, 8);
FIELD(uc_set_options, flags, 8, 8);
FIELD(uc_set_options, expire_ms, 16, 8);
FIELD(uc_set_options, expire_at_ms, 24, 8);
FIELD(uc_feed_query, size, 0, 8);
FIELD(uc_feed_query, flags, 8, 8);
FIELD(uc_feed_query, filter, 16, 8);
FIELD(uc_feed_query, filter_length, 24, 8);
FIELD(uc_feed_query, low, 32, 8);
FIELD(uc_feed_query, low_length, 40, 8);
FIELD(uc_feed_query, high, 48, 8);
FIELD(uc_feed_query, high_length, 56, 8);
FIELD(uc_feed_info_reply, size, 0, 8);
FIELD(uc_feed_info_reply, items, 8, 8);
FIELD(uc_feed_info_reply, visible, 16, 8);
FIELD(uc_feed_info_reply, hidden, 24, 8);
FIELD(uc_feed_info_reply, leaves, 32, 8);
FIELD(uc_feed_info_reply, nodes, 40, 8);
FIELD(uc_feed_info_reply, bytes, 48, 8);
FIELD(uc_feed_info_reply, fill_percent, 56, 8);
FIELD(uc_feed_info_reply, value_size, 64, 4);
FIELD(uc_feed_info_reply, attribute_count, 68, 4);
FIELD(uc_feed_info_reply, attribute_bits, 72, 16);
FIELD(uc_feed_info_reply, order, 88, 16);
FIELD(uc_feed_info_reply, value_type, 104, 16);
FIELD(uc_feed_info_reply, unique, 120, 4);
FIELD(uc_feed_info_reply, indexed, 124, 4);
CHECK(sizeof(uc_feed_query) == 64 && sizeof(uc_feed_info_reply) == 128);
FIELD(uc_bytes, data, 0, 8);
FIELD(uc_bytes, length, 8, 8);
FIELD(uc_words, count, 0, 8);
FIELD(uc_words, words, 8, 8);

int main(void)
{
    return 0;
}
